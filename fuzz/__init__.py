"""Hostile clients against a real cluster: `make fuzz`, or `python -m fuzz --help`. What was found and how to
do it again: docs/reliability.md.

    layout       a request as bytes, and which bytes are which: what structural mutations work on
    vocabulary   what a hostile client puts into a field: existing names, extreme numbers, odd texts
    batches      record batches from valid to absurd, and compression bombs
    mutations    changes to a request: of fields, of lengths, of arbitrary bytes
    frames       frame number N of seed S: always the same bytes
    line         one connection: frames out, answers in, and whether each frame got what it had to get
    attacks/     what is not a mutated frame: bombs, half frames, storms, JSON and HTTP
    neighbour    a well-behaved client whose records must all be there
    watch        the brokers from outside: memory, descriptors, log, the longest silence
    campaign     all of it together, and the verdict
"""
