#!/usr/bin/env python3
"""Serves a plan with Ray Serve: replicas by load, and texts as they are generated.

  pip install "ray[serve]" out/moert-*.whl
  python3 ray_serve.py plan.fb --replicas 1 4            # at http://127.0.0.1:8000
  curl -N http://127.0.0.1:8000/generate -d '{"prompt": "In the beginning", "max_tokens": 40}'
  curl http://127.0.0.1:8000/chat -d '{"messages": [{"role": "user", "content": "Hello"}]}'

/generate sends the text as it comes; a client that leaves ends it. /chat answers with the whole reply as JSON, and
/stats with what a replica has done. Each replica has the plan open with all threads that it is given, and generates as many texts together as the plan was
compiled for; Ray starts more replicas when more requests wait, up to the second number.
"""
import argparse
import json
import time

import moert
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse


@serve.deployment(max_ongoing_requests=64)
class PlanServer:
    def __init__(self, plan: str, threads: int) -> None:
        self.engine = moert.Engine(plan, threads=threads)

    async def __call__(self, request: Request) -> Response:
        if request.url.path.endswith("/stats"):
            return JSONResponse(self.engine.stats)
        try:
            fields = json.loads(await request.body())
            if not isinstance(fields, dict):
                raise moert.UsageError("the request is not a JSON object")
            if request.url.path.endswith("/chat"):
                result = await self.engine.chat_async(fields.pop("messages", []), **fields)
                return JSONResponse({"message": result.message(), "finish": result.finish})
            if request.url.path.endswith("/generate"):
                # An error of the request comes here, before the first byte.
                generation = self.engine.stream_async(fields.pop("prompt", ""), **fields)
                return StreamingResponse(self.pieces(generation), media_type="text/plain")
        except ValueError as error:  # A UsageError, or text that is not JSON.
            return JSONResponse({"error": str(error)}, 400)
        except moert.Error as error:
            return JSONResponse({"error": error.message, "remedy": error.remedy}, 503)
        return JSONResponse({"error": "there are /generate, /chat and /stats"}, 404)

    async def pieces(self, generation: moert.AsyncGeneration):
        async with generation:
            async for event in generation:
                if str(event):
                    yield str(event)

    def check_health(self) -> None:
        self.engine.stats


def application(plan: str, least: int, most: int, threads: int) -> serve.Application:
    scaling = {"min_replicas": least, "max_replicas": most, "target_ongoing_requests": 8}
    return PlanServer.options(autoscaling_config=scaling,
                              ray_actor_options={"num_cpus": threads or 1}).bind(plan, threads)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("--replicas", type=int, nargs=2, default=[1, 2], metavar=("LEAST", "MOST"))
    parser.add_argument("--threads", type=int, default=0, help="of each replica; 0: all cores")
    options = parser.parse_args()
    serve.run(application(options.plan, *options.replicas, options.threads))
    while True:
        time.sleep(3600)
