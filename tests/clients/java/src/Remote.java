import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The Java client: reads a command a line and answers each with one line. The Go program beside it
 * understands the same lines; tests/clients/matrix/remote.py has them.
 */
public final class Remote {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String servers;
    private final Map<String, Member> members = new HashMap<>();

    private Remote(String servers) {
        this.servers = servers;
    }

    public static void main(String[] arguments) throws Exception {
        Remote remote = new Remote(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = remote.obey(Arrays.asList(line.split(" ")));
            } catch (Exception error) {
                answer = "error " + String.valueOf(error).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0);
    }

    private String obey(List<String> words) throws Exception {
        String name = words.get(1);
        switch (words.get(0)) {
            case "produce":
                return produce(name, words.get(2), words.subList(3, words.size()));
            case "consume":
                return consume(name, Integer.parseInt(words.get(2)));
            case "administer":
                return administer(name);
            case "join":
                members.put(name, new Member(words.get(2), words.get(3), words.get(4), words.get(5)));
                return "joined";
            case "state":
                return members.get(name).state();
            case "commit":
                return members.get(name).commit();
            case "leave":
                return members.remove(name).leave();
            default:
                return "error no such command";
        }
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return settings;
    }

    private String produce(String topic, String idempotent, List<String> values) throws Exception {
        Properties settings = settings();
        settings.put("enable.idempotence", idempotent);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        StringBuilder answer = new StringBuilder("offsets");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (String value : values) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value)));
            }
            for (Future<RecordMetadata> each : sent) {
                answer.append(' ').append(each.get().offset());
            }
        }
        return answer.toString();
    }

    private String consume(String topic, int count) {
        StringBuilder answer = new StringBuilder("values");
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Set.of(partition));
            consumer.seekToBeginning(Set.of(partition));
            int read = 0;
            while (read < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    answer.append(' ').append(record.value());
                    read++;
                }
            }
        }
        return answer.toString();
    }

    private String administer(String topic) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(Set.of(new NewTopic(topic, 2, (short) -1))).all().get();
            int partitions = 0;
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (partitions != 2 && System.nanoTime() < deadline) {
                try {
                    partitions = admin.describeTopics(Set.of(topic)).allTopicNames().get().get(topic).partitions().size();
                } catch (Exception error) {
                    if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
                        throw error;
                    }
                }
            }
            admin.listConsumerGroups().all().get();
            admin.deleteTopics(Set.of(topic)).all().get();
            return "partitions " + partitions;
        }
    }

    /** A consumer in a group, polled by a thread of its own; the lock is what a consumer's one thread needs. */
    private final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final ReentrantLock turn = new ReentrantLock(true);
        private final Thread polling = new Thread(this::poll);
        private final Set<Integer> revoked = new TreeSet<>();
        private volatile boolean over = false;
        private int rebalances = 0;
        private int records = 0;

        Member(String topic, String group, String assignor, String instance) {
            Properties settings = settings();
            settings.put("group.id", group);
            settings.put("session.timeout.ms", "45000");
            settings.put("heartbeat.interval.ms", "200");
            String kind = assignor.equals("cooperative") ? "CooperativeStickyAssignor" : "RangeAssignor";
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + kind);
            if (!instance.equals("-")) {
                settings.put("group.instance.id", instance);
            }
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(Set.of(topic), this);
            polling.setDaemon(true);
            polling.start();
        }

        private void poll() {
            while (!over) {
                turn.lock();
                try {
                    records += consumer.poll(Duration.ofMillis(50)).count();
                } finally {
                    turn.unlock();
                }
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(each -> revoked.add(each.partition()));
        }

        String state() {
            turn.lock();
            try {
                String owned = numbers(consumer.assignment().stream().map(TopicPartition::partition).toList());
                return "state " + rebalances + " " + records + " " + owned + " " + numbers(revoked);
            } finally {
                turn.unlock();
            }
        }

        private String numbers(Collection<Integer> numbers) {
            return numbers.isEmpty() ? "-" : numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
        }

        String commit() {
            turn.lock();
            try {
                consumer.commitSync(PATIENCE);
                return "committed";
            } finally {
                turn.unlock();
            }
        }

        String leave() throws InterruptedException {
            over = true;
            polling.join();
            consumer.close();
            return "left";
        }
    }
}
