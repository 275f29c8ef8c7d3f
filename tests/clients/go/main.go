// The franz-go client: reads a command a line and answers each with one line. The Java program
// understands the same lines; tests/clients/matrix/remote.py has them.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

var servers []string
var members = map[string]*member{}

func main() {
	servers = strings.Split(os.Args[1], ",")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		answer, err := obey(strings.Split(lines.Text(), " "))
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(answer)
	}
}

func obey(words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := words[1]
	switch words[0] {
	case "produce":
		return produce(ctx, name, words[2] == "true", words[3:])
	case "consume":
		count, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		return consume(ctx, name, count)
	case "administer":
		return administer(ctx, name)
	case "join":
		joined, err := join(words[2], words[3], words[4], words[5])
		members[name] = joined
		return "joined", err
	case "state":
		return members[name].state(), nil
	case "commit":
		return "committed", members[name].client.CommitUncommittedOffsets(ctx)
	case "leave":
		members[name].leave()
		delete(members, name)
		return "left", nil
	}
	return "", errors.New("no such command")
}

func produce(ctx context.Context, topic string, idempotent bool, values []string) (string, error) {
	options := []kgo.Opt{kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	records := make([]*kgo.Record, 0, len(values))
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)})
	}
	answer := "offsets"
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return "", result.Err
		}
		answer += fmt.Sprintf(" %d", result.Record.Offset)
	}
	return answer, nil
}

func consume(ctx context.Context, topic string, count int) (string, error) {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.ConsumePartitions(from))
	if err != nil {
		return "", err
	}
	defer client.Close()
	answer := "values"
	for read := 0; read < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			answer += " " + string(record.Value)
			read++
		})
	}
	return answer, nil
}

func administer(ctx context.Context, topic string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...))
	if err != nil {
		return "", err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 2, -1, nil, topic); err != nil {
		return "", err
	}
	partitions := 0
	for partitions != 2 {
		listed, err := admin.ListTopics(ctx, topic)
		if err != nil {
			return "", err
		}
		if found := listed[topic]; found.Err == nil {
			partitions = len(found.Partitions)
		} else if !errors.Is(found.Err, kerr.UnknownTopicOrPartition) && !errors.Is(found.Err, kerr.LeaderNotAvailable) {
			return "", found.Err
		}
	}
	if _, err := admin.ListGroups(ctx); err != nil {
		return "", err
	}
	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		return "", err
	}
	return fmt.Sprintf("partitions %d", partitions), nil
}

// A consumer in a group, polled by a goroutine of its own.
type member struct {
	client     *kgo.Client
	done       chan struct{}
	lock       sync.Mutex
	owned      map[int32]bool
	revoked    map[int32]bool
	rebalances int
	records    int
}

func join(topic, group, assignor, instance string) (*member, error) {
	joined := &member{done: make(chan struct{}), owned: map[int32]bool{}, revoked: map[int32]bool{}}
	balancer := kgo.RangeBalancer()
	if assignor == "cooperative" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(servers...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(45 * time.Second),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(joined.assigned),
		kgo.OnPartitionsRevoked(joined.lost),
		kgo.OnPartitionsLost(joined.lost),
	}
	if instance != "-" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	go joined.poll()
	return joined, nil
}

func (m *member) poll() {
	defer close(m.done)
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		m.lock.Lock()
		m.records += fetches.NumRecords()
		m.lock.Unlock()
	}
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.rebalances++
	for _, partitions := range topics {
		for _, partition := range partitions {
			m.owned[partition] = true
		}
	}
}

func (m *member) lost(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, partitions := range topics {
		for _, partition := range partitions {
			delete(m.owned, partition)
			m.revoked[partition] = true
		}
	}
}

func (m *member) state() string {
	m.lock.Lock()
	defer m.lock.Unlock()
	return fmt.Sprintf("state %d %d %s %s", m.rebalances, m.records, numbers(m.owned), numbers(m.revoked))
}

func numbers(set map[int32]bool) string {
	if len(set) == 0 {
		return "-"
	}
	found := make([]string, 0, len(set))
	for number := range set {
		found = append(found, strconv.Itoa(int(number)))
	}
	sort.Strings(found)
	return strings.Join(found, ",")
}

func (m *member) leave() {
	m.client.Close()
	<-m.done
}
