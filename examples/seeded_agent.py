"""A random HPO method as a program. After a stop it resumes with the same draws.

hpobench-nmt run --methods "RS,cmd:python examples/seeded_agent.py" --tables sotu-ngram
"""

import json
import random
import sys

problem: dict[str, object] = {}
seen: set[int] = set()
for line in sys.stdin:
    message = json.loads(line)
    if message["message"] == "problem":
        problem, n_rows = message, len(message["rows"])
        asked = message.get("asked", 0)  # questions that were answered before a stop
    elif message["message"] == "tell":
        seen.add(message["row"])
    elif message["message"] == "ask":
        draws = random.Random(f"{problem['seed']}, question {asked}")  # its own
        asked += 1
        taken = {*seen, *message["running"]}
        free = [row for row in range(n_rows) if row not in taken]
        print(json.dumps({"row": draws.choice(free)}), flush=True)
