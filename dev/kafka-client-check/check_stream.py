"""Produces prompts to a topic, consumes their completions and checks that each (request_id, index) is seen once.

    python3 check_stream.py --bootstrap-servers localhost:9092 --prompts prompts --completions completions \\
        --dead-letters dead-letters --num-requests 200 --n 2

A client of another language than Millrace's, with librdkafka underneath. It reads with isolation.level=read_committed, as a
consumer of exactly-once results must. It goes on for --settle seconds after the last completion, to see what comes twice.
Every tenth request is a broken one and has to come back as a dead letter. Run ids keep several checks on one topic apart.
With --at-least-once a completion may come again, but only with the same ids.
Exit codes: 0 every result once, 1 something is missing, twice or wrong.
"""

import argparse
import collections
import json
import sys
import time
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

BROKEN_EVERY = 10


def chat(number):
    return f"Compute {10 + number % 89} + {10 + number * 7 % 89}." if number % 2 else "Tell a story about a fox."


def prompts(run_id, args):
    """Yields (request_id, is_broken, record bytes)."""
    for number in range(args.num_requests):
        request_id = f"{run_id}-{number:05d}"
        sampling = {"n": args.n, "temperature": 0.8, "max_tokens": args.max_tokens}
        is_broken = number % BROKEN_EVERY == BROKEN_EVERY - 1
        if is_broken:
            sampling["temperature"] = -1
        record = {
            "request_id": request_id,
            "messages": [{"role": "user", "content": chat(number)}],
            "sampling": sampling,
        }
        yield request_id, is_broken, json.dumps(record).encode()


def produce(run_id, args):
    """Sends all prompts; returns the ids of good and of broken ones."""
    errors = []
    producer = Producer({"bootstrap.servers": args.bootstrap_servers, "enable.idempotence": True})
    good, broken = set(), set()
    for request_id, is_broken, record in prompts(run_id, args):
        (broken if is_broken else good).add(request_id)
        producer.produce(args.prompts, value=record, key=request_id.encode(),
                         on_delivery=lambda error, _: errors.append(error) if error else None)
        producer.poll(0)
    left = producer.flush(60)
    if errors or left:
        raise SystemExit(f"prompts were not taken: {left} unsent, errors {errors[:3]}; is the broker up?")
    return good, broken


class Results:
    """What was consumed of one run."""

    def __init__(self, run_id, good, broken, n):
        self.prefix = run_id + "-"
        self.expected = {(request_id, index) for request_id in good for index in range(n)}
        self.broken = broken
        self.completions = collections.defaultdict(list)  # (request_id, index) -> [token ids]
        self.dead_letters = collections.Counter()
        self.strangers = []
        self.num_tokens = 0

    def completion(self, record):
        if not record["request_id"].startswith(self.prefix):
            return False
        key = record["request_id"], record["index"]
        self.completions[key].append(record["token_ids"])
        self.num_tokens += len(record["token_ids"])
        if key not in self.expected:
            self.strangers.append(key)
        return True

    def dead_letter(self, record):
        request_id = record["request_id"]
        if request_id is None or not request_id.startswith(self.prefix):
            return False
        self.dead_letters[request_id] += 1
        if request_id not in self.broken:
            self.strangers.append((request_id, record))
        return True

    def is_complete(self):
        return len(self.completions) >= len(self.expected) and len(self.dead_letters) >= len(self.broken)

    def faults(self, at_least_once):
        missing = sorted(self.expected - self.completions.keys())
        if missing:
            yield f"{len(missing)} completions are missing, the first is {missing[0]}"
        again = {key: ids for key, ids in self.completions.items() if len(ids) > 1}
        if again and not at_least_once:
            yield f"{len(again)} completions came more than once, the first is {min(again)}"
        unequal = [key for key, ids in again.items() if any(other != ids[0] for other in ids)]
        if unequal:
            yield f"{len(unequal)} completions came again with other ids, the first is {min(unequal)}"
        missing = sorted(self.broken - self.dead_letters.keys())
        if missing:
            yield f"{len(missing)} broken requests have no dead letter, the first is {missing[0]}"
        again = [request_id for request_id, count in self.dead_letters.items() if count > 1]
        if again and not at_least_once:
            yield f"{len(again)} dead letters came more than once, the first is {min(again)}"
        if self.strangers:
            yield f"{len(self.strangers)} results were not asked for, the first is {self.strangers[0]}"


def consume(results, args):
    """Reads until everything was seen and nothing more came for a while, or time is up. Returns the seconds to the last."""
    consumer = Consumer({
        "bootstrap.servers": args.bootstrap_servers,
        "group.id": "kafka-client-check-" + results.prefix,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
    })
    consumer.subscribe([args.completions, args.dead_letters])
    started = last_result = last_print = time.monotonic()
    try:
        while True:
            now = time.monotonic()
            if results.is_complete() and now - last_result > args.settle or now - started > args.timeout:
                return last_result - started
            if now - last_print > 5:
                last_print = now
                print(f"{now - started:.0f} s: {len(results.completions)} of {len(results.expected)} completions, "
                      f"{len(results.dead_letters)} of {len(results.broken)} dead letters", flush=True)
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                if message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART or message.error().retriable():
                    continue
                raise KafkaException(message.error())
            record = json.loads(message.value())
            take = results.completion if message.topic() == args.completions else results.dead_letter
            if take(record):
                last_result = time.monotonic()
    finally:
        consumer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--prompts", default="prompts")
    parser.add_argument("--completions", default="completions")
    parser.add_argument("--dead-letters", default="dead-letters")
    parser.add_argument("--num-requests", type=int, default=200)
    parser.add_argument("--n", type=int, default=2, help="samples of each request")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=300, help="seconds to wait for all results")
    parser.add_argument("--settle", type=float, default=25, help="seconds to wait for repetitions after the last result")
    parser.add_argument("--at-least-once", action="store_true")
    args = parser.parse_args()
    run_id = uuid.uuid4().hex[:8]
    good, broken = produce(run_id, args)
    print(f"run {run_id}: {len(good)} requests of {args.n} samples and {len(broken)} broken ones sent", flush=True)
    results = Results(run_id, good, broken, args.n)
    seconds = consume(results, args)
    num_records = sum(len(ids) for ids in results.completions.values())
    print(f"{num_records} completion records, {len(results.completions)} different of {len(results.expected)}; "
          f"{sum(results.dead_letters.values())} dead-letter records, {len(results.dead_letters)} different of "
          f"{len(results.broken)}; {results.num_tokens} tokens; last after {seconds:.1f} s")
    faults = list(results.faults(args.at_least_once))
    for fault in faults:
        print(f"FAILED: {fault}")
    if not faults:
        print("passed: every result at least once, equal each time" if args.at_least_once else "passed: every result once")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
