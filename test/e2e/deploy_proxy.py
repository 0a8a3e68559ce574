#!/usr/bin/env python3
"""Two `moert serve` behind haproxy or nginx with the configuration of tools/deploy: what clients lose.

  deploy_proxy.py haproxy|nginx --config FILE --moert PATH --plan PLAN.fb --work DIR

The plan must decode several sequences together. Standard library only.
"""
import argparse
import collections
import os
import shutil
import threading

from replicas import PacedReplica, Proxy, Replica, Request, free_ports, wait_for

LONG = {"tokens": 480, "choices": 8} # Takes some tenths of a second.


def replica_of(proxy, replicas, session=None, **fields):
    """The number of the replica that answered one more request."""
    def finished():
        return [replica.count("requests_finished_total") for replica in replicas]
    before = finished()
    outcome = Request(proxy.port, session, False, **fields).finish()
    assert outcome == "whole", outcome
    # A client may have its answer a moment before it is counted.
    wait_for("the request is counted", lambda: finished() != before)
    more = [now - old for now, old in zip(finished(), before)]
    assert sorted(more) == [0, 1], more
    return more.index(1)


def keys_by_replica(proxy, replicas):
    """Eight keys for each replica."""
    keys = [[], []]
    for number in range(200):
        keys[replica_of(proxy, replicas, f"session-{number}")].append(f"session-{number}")
        if min(map(len, keys)) >= 8:
            return [some[:8] for some in keys]
    raise AssertionError(f"of 200 keys a replica got less than 8: {keys}")


def wait_until_used(proxy, replicas, number, key):
    """Until the proxy sends requests of this key to its replica again."""
    wait_for(f"replica {number} is used again", lambda: replica_of(proxy, replicas, key) == number)


def check_keys(proxy, replicas, keys, kind):
    """A key's requests meet one replica, and so the cache that has their prefix."""
    for number, some in enumerate(keys):
        for key in some[:3]:
            assert {replica_of(proxy, replicas, key) for _ in range(3)} == {number}, key
    if kind == "haproxy":
        # The proxy must choose by bodies, too, which are larger than a usual buffer.
        places = [{replica_of(proxy, replicas, prompt_cache_key=f"cache-{key}") for _ in range(3)} for key in range(16)]
        assert all(len(place) == 1 for place in places) and set.union(*places) == {0, 1}, places
    print("keys: one replica each")


def check_stream(proxy, replicas, keys):
    """A piece of a stream arrives before the next one is sent: no proxy gathers them."""
    replicas[0].kill()
    with PacedReplica(replicas[0].port) as paced:
        def is_seen():
            request = Request(proxy.port, keys[0][0], True)
            request.read_some()
            # Until the proxy uses it, the other replica answers.
            if request.text != paced.FIRST:
                return request.finish() != "whole"
            paced.go_on.set()
            return request.finish() == "cut" and request.text == paced.FIRST + paced.LAST
        wait_for("a stream comes in pieces", is_seen)
    replicas[0].start()
    wait_until_used(proxy, replicas, 0, keys[0][0])
    print("streams: at once")


def check_client_leaves(proxy, replicas, keys):
    """A client that leaves frees its place at the replica, with and without streaming."""
    for stream in (True, False):
        def is_cancelled():
            before = replicas[0].count("requests_cancelled_total")
            request = Request(proxy.port, keys[0][0], stream, **LONG)
            if stream:
                request.read_some()
            else:
                wait_for("the request runs", lambda: replicas[0].running() > 0)
            request.leave()
            wait_for("nothing runs", lambda: replicas[0].running() == 0)
            return replicas[0].count("requests_cancelled_total") > before
        assert any(is_cancelled() for _ in range(10)), f"clients leave unseen (stream: {stream})"
    print("clients that leave: seen")


def check_kill(proxy, replicas, keys):
    """kill -9: what sent nothing yet is answered by the other replica, a stream is seen to be cut."""
    for _ in range(10):
        whole = Request(proxy.port, keys[0][0], False, **LONG)
        stream = Request(proxy.port, keys[0][1], True, **LONG)
        stream.read_some()
        ran = replicas[0].running()
        replicas[0].kill()
        outcomes = whole.finish(), stream.finish()
        assert outcomes[0] == "whole" and outcomes[1] in ("cut", "whole"), outcomes
        replicas[0].start()
        wait_until_used(proxy, replicas, 0, keys[0][0])
        # Both have four sequences at least, of which the replica runs four at a time.
        if ran and outcomes[1] == "cut":
            print("kill -9: a request was saved, a stream was cut")
            return
    raise AssertionError("no stream was running when its replica was killed")


class Load:
    """Clients that send one request after the other, every second one streaming, until they are told to stop."""

    def __init__(self, proxy, keys):
        self.outcomes, self.lock, self.over = collections.Counter(), threading.Lock(), False
        self.done = [0] * len(keys)
        self.threads = [threading.Thread(target=self.run, args=(proxy.port, number, key), daemon=True)
                        for number, key in enumerate(keys)]
        for thread in self.threads:
            thread.start()

    def run(self, port, number, key):
        while not self.over:
            try:
                outcome = Request(port, key, (self.done[number] + number) % 2 == 0, tokens=200).finish()
            except OSError as error:
                outcome = f"lost: {error!r}"
            with self.lock:
                self.outcomes[outcome] += 1
                self.done[number] += 1

    def wait_for_more(self):
        """Until each client has had two more answers."""
        before = list(self.done)
        wait_for("clients have answers", lambda: all(now >= old + 2 for now, old in zip(self.done, before)))

    def take(self):
        """What happened since the last call."""
        self.wait_for_more()
        with self.lock:
            taken, self.outcomes = self.outcomes, collections.Counter()
        return taken

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def check_load(proxy, replicas, keys):
    """Under load one replica is killed, then the other one drained: only streams of the killed one are cut."""
    load = Load(proxy, [*keys[0][:4], *keys[1][:4]])
    try:
        load.wait_for_more()
        wait_for("the first replica runs", lambda: replicas[0].running() > 0)
        replicas[0].kill()
        killed = load.take()
        replicas[0].start()
        wait_for("the first replica is used again", lambda: replicas[0].count("requests_finished_total") >= 4)
        started = load.take()
        wait_for("the second replica runs", lambda: replicas[1].running() > 0)
        replicas[1].begin_drain()
        replicas[1].wait_drained()
        drained = load.take()
        replicas[1].start()
        wait_for("the second replica is used again", lambda: replicas[1].count("requests_finished_total") >= 4)
    finally:
        load.stop()
    last = load.outcomes
    print(f"load: {dict(killed)} at a kill, {dict(started + drained + last)} else")
    assert set(killed) <= {"whole", "cut"} and killed["cut"] <= 8, killed
    assert set(started + drained + last) == {"whole"}, (started, drained, last)
    print("load: nothing lost")


def check_full(proxy, replicas, keys):
    """What a full replica refuses, the other one takes; when both are full, clients are told when to try again."""
    for replica in replicas:
        replica.kill()
        replica.start("--sequences", "1", "--queue", "2")
    for number in (0, 1):
        wait_until_used(proxy, replicas, number, keys[number][0])

    def outcomes_of(count):
        requests = [Request(proxy.port, keys[0][0], False, tokens=480) for _ in range(count)]
        return collections.Counter(request.finish() for request in requests)
    # Each replica takes at least two and at most three.
    for _ in range(5):
        outcomes = outcomes_of(4)
        assert outcomes == {"whole": 4}, outcomes
    assert replicas[0].count("requests_refused_total") > 0
    outcomes = collections.Counter()
    for _ in range(5):
        outcomes += outcomes_of(16)
    assert set(outcomes) == {"whole", "refused"} and outcomes["whole"] >= 5 * 4, outcomes
    print("full replicas: others take their requests")


def check_none(proxy, replicas):
    for replica in replicas:
        replica.kill()
    for stream in (False, True):
        outcome = Request(proxy.port, None, stream).finish()
        assert outcome == "refused", outcome
    print("no replica: refused")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", choices=("haproxy", "nginx"))
    for name in ("--config", "--moert", "--plan", "--work"):
        p.add_argument(name, required=True)
    a = p.parse_args()
    shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work)
    ports = free_ports(3)
    replicas = [Replica(a.moert, a.plan, port, os.path.join(a.work, f"{number}.log"))
                for number, port in enumerate(ports[1:])]
    proxy = None
    try:
        for replica in replicas:
            replica.start()
        proxy = Proxy(a.kind, a.config, ports, os.path.abspath(a.work))
        keys = keys_by_replica(proxy, replicas)
        check_keys(proxy, replicas, keys, a.kind)
        check_stream(proxy, replicas, keys)
        check_client_leaves(proxy, replicas, keys)
        check_kill(proxy, replicas, keys)
        check_load(proxy, replicas, keys)
        check_full(proxy, replicas, keys)
        check_none(proxy, replicas)
    finally:
        if proxy:
            proxy.stop()
        for replica in replicas:
            replica.kill()
    print(f"{a.kind}: ok")


if __name__ == "__main__":
    main()
