"""Words: the only package that turns facts into sentences, in English and Chinese.

A fact (an event, a remark, an error) becomes a ``Phrase``, which is a key and named fields; a ``Phrasebook``
has a template for each key. Code never reads a sentence back: what has to be decided is decided by the fact.
The page reads the same files, so a phrase can be sent to it and said there in the reader's language.
"""
