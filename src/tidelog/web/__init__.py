"""The lab's page: every scenario as a picture that can be watched, stepped, forked and compared.

``recording`` turns a played scenario into plain data, ``server`` gives it to a browser, ``export`` puts it
into one file that needs no server. The page itself is in ``static``: plain ES modules, no build step.
"""
