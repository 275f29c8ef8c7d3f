"""Tests of applications that use Kafka: a plugin for pytest, on clusters of real brokers.

`plugin` has the fixtures, markers and options; `options` reads them; `running` is the cluster of a session;
`faults` are the verbs of the fixture `kafka_faults`; `ledger` is `kafka_ledger`, over the proxies of
`tidelog.ledger`; `schedules` and `schedule_runs` run a test under many schedules of faults; `report`
is what a failure says, `again` the command that repeats it; `existing` is a Kafka cluster that runs already.

Nothing here needs more than the broker does, and nothing is loaded before a test asks for it.
"""
