import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Uses the Java client the way its users do, default settings included, and prints "ok" and a name for each
 * thing that worked. The first that does not ends the program with a stack trace.
 *
 * Arguments: bootstrap servers, and a topic that it creates and deletes.
 */
public final class JavaClient {
    private static final int PARTITIONS = 3;
    private static final int RECORDS = 900;
    private static final long FIRST_TIME = 1_600_000_000_000L;
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

    private final String servers;
    private final String topic;

    private JavaClient(String servers, String topic) {
        this.servers = servers;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        JavaClient client = new JavaClient(arguments[0], arguments[1]);
        try (Admin admin = Admin.create(client.settings())) {
            client.create(admin);
            client.produce();
            client.consume();
            client.inspect(admin);
            client.transact();
            client.change(admin);
            client.delete(admin);
        }
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        return settings;
    }

    private TopicPartition partition(int number) {
        return new TopicPartition(topic, number);
    }

    private List<TopicPartition> partitions() {
        return IntStream.range(0, PARTITIONS).mapToObj(this::partition).collect(Collectors.toList());
    }

    // ------------------------------------------------------------------ records

    /** The idempotent producer, which is what the defaults give since 3.0. */
    private void produce() throws Exception {
        for (int codec = 0; codec < CODECS.length; codec++) {
            Properties settings = settings();
            settings.put("compression.type", CODECS[codec]);
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            try (KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                for (int number = 0; number < RECORDS; number++) {
                    sent.add(producer.send(record(codec, number)));
                }
            }
            for (int number = 0; number < RECORDS; number++) {
                RecordMetadata told = sent.get(number).get();
                expect(told.partition() == number % PARTITIONS, "partition");
                expect(told.offset() == (codec * RECORDS + number) / PARTITIONS, "offset " + told);
            }
            ok("produce " + CODECS[codec]);
        }
    }

    private ProducerRecord<byte[], byte[]> record(int codec, int number) {
        int position = codec * RECORDS + number;
        byte[] key = number % 2 == 0 ? null : ("key " + number).getBytes();
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            topic, number % PARTITIONS, FIRST_TIME + position, key, value(position));
        record.headers().add("codec", CODECS[codec].getBytes()).add("null", null);
        return record;
    }

    private static byte[] value(int position) {
        return ("value " + position).getBytes();
    }

    private void consume() {
        int all = RECORDS * CODECS.length;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions());
            consumer.seekToBeginning(partitions());
            int read = 0;
            while (read < all) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(20))) {
                    int position = (int) record.offset() * PARTITIONS + record.partition();
                    expect(Arrays.equals(record.value(), value(position)), "value at " + record);
                    expect(record.timestamp() == FIRST_TIME + position, "time of " + record);
                    expect(record.headers().lastHeader("null").value() == null, "null header");
                    expect(record.leaderEpoch().isPresent(), "leader epoch");
                    read++;
                }
            }
            expect(read == all, "read " + read);
            ok("consume");
            long each = all / PARTITIONS;
            expect(consumer.endOffsets(partitions()).get(partition(1)) == each, "end");
            expect(consumer.beginningOffsets(partitions()).get(partition(1)) == 0, "beginning");
            long found = consumer.offsetsForTimes(Map.of(partition(0), FIRST_TIME + 300)).get(partition(0)).offset();
            expect(found == 100, "offset for time " + found);
            consumer.seek(partition(2), each - 1);
            expect(consumer.position(partition(2)) == each - 1, "position");
            ok("offsets");
        }
    }

    /** A cluster that does not serve transactions says so; it does not make the client believe it lacks rights. */
    private void transact() {
        Properties settings = settings();
        settings.put("transactional.id", topic);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
        } catch (KafkaException error) {
            expect(error.getMessage().contains("does not serve transactions"), error.toString());
        }
        ok("transactions, or why not");
    }

    // ------------------------------------------------------------------ administration

    private void create(Admin admin) throws Exception {
        NewTopic wanted = new NewTopic(topic, PARTITIONS, (short) 3).configs(Map.of("min.insync.replicas", "2"));
        admin.createTopics(Set.of(wanted)).all().get();
        expectFailure(TopicExistsException.class, admin.createTopics(Set.of(wanted)).all());
        while (!isKnown(admin)) {
            Thread.sleep(20);
        }
        ok("create");
    }

    private boolean isKnown(Admin admin) throws Exception {
        try {
            TopicDescription topic = admin.describeTopics(Set.of(this.topic)).allTopicNames().get().get(this.topic);
            return topic.partitions().stream().allMatch(each -> each.leader() != null && each.isr().size() == 3);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw error;
        }
    }

    private void inspect(Admin admin) throws Exception {
        List<Node> nodes = new ArrayList<>(admin.describeCluster().nodes().get());
        expect(nodes.size() == 3, "nodes " + nodes);
        expect(nodes.contains(admin.describeCluster().controller().get()), "controller");
        expect(admin.listTopics().names().get().contains(topic), "list");
        ok("describe");
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        asked.put(partition(0), OffsetSpec.latest());
        asked.put(partition(1), OffsetSpec.maxTimestamp());
        var offsets = admin.listOffsets(asked).all().get();
        long end = RECORDS * CODECS.length / PARTITIONS;
        expect(offsets.get(partition(0)).offset() == end, "latest");
        expect(offsets.get(partition(1)).offset() == end - 1, "youngest");
        ok("list offsets");
        List<Integer> ids = nodes.stream().map(Node::id).collect(Collectors.toList());
        var folders = admin.describeLogDirs(ids).allDescriptions().get();
        for (int id : ids) {
            boolean holds = folders.get(id).values().stream().anyMatch(
                folder -> folder.replicaInfos().get(partition(0)).size() > 10_000);
            expect(holds, "log folders of " + id);
        }
        ok("log folders");
        expectFailure(SecurityDisabledException.class, admin.describeAcls(AclBindingFilter.ANY).values());
        ok("access rules are off");
    }

    private void change(Admin admin) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var set = new AlterConfigOp(new ConfigEntry("retention.ms", "7654321"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        String seen = "";
        while (!seen.equals("7654321")) {
            seen = admin.describeConfigs(Set.of(resource)).all().get().get(resource).get("retention.ms").value();
        }
        ok("configs");
        long before = 10;
        var deleted = admin.deleteRecords(Map.of(partition(0), RecordsToDelete.beforeOffset(before))).all();
        deleted.get();
        var earliest = admin.listOffsets(Map.of(partition(0), OffsetSpec.earliest())).all().get();
        expect(earliest.get(partition(0)).offset() == before, "beginning after deletion");
        ok("delete records");
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(PARTITIONS + 1))).all().get();
        ok("create partitions");
        var election = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(0))).partitions().get();
        var error = election.get(partition(0));
        expect(error.isEmpty() || error.get() instanceof ElectionNotNeededException, "election " + error);
        ok("elect leaders");
    }

    private void delete(Admin admin) throws Exception {
        admin.deleteTopics(Set.of(topic)).all().get();
        // A deletion that is under way may be asked for again; once it is done, no broker knows the topic.
        for (boolean known = true; known; Thread.sleep(20)) {
            try {
                admin.deleteTopics(Set.of(topic)).all().get();
            } catch (ExecutionException error) {
                var cause = error.getCause();
                expect(cause instanceof UnknownTopicOrPartitionException, "delete again: " + cause);
                known = false;
            }
        }
        expect(!admin.listTopics().names().get().contains(topic), "a deleted topic is listed");
        ok("delete");
    }

    // ------------------------------------------------------------------ saying so

    private static void ok(String what) {
        System.out.println("ok " + what);
    }

    private static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void expectFailure(Class<? extends Exception> kind, Future<?> answer) throws Exception {
        try {
            answer.get();
        } catch (ExecutionException error) {
            if (kind.isInstance(error.getCause())) {
                return;
            }
            throw error;
        }
        throw new AssertionError("expected " + kind.getSimpleName());
    }
}
