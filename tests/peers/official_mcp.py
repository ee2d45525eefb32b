"""Calls tools with the official Python client of the Model Context Protocol.

Usage: official_mcp.py URL KEY MODE, where MODE is `legacy` (the handshake of 2025) or `2026-07-28`. Each line on stdin is JSON:
{"tool": …, "arguments": {…}}. The first line on stdout is the server and its tools; each further one is the result of a call, or
{"failed": …} where the protocol refuses it.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


async def main(url, key, mode):
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=60)
    async with http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        listed = await client.list_tools()
        tools = [
            {"name": tool.name, "read_only": tool.annotations.read_only_hint, "schema": tool.input_schema}
            for tool in listed.tools
        ]
        version = client.session.protocol_version
        print(json.dumps({"version": version, "tools": tools}), flush=True)
        for line in sys.stdin:
            call = json.loads(line)
            try:
                result = await client.call_tool(call["tool"], call["arguments"])
                said = {
                    "structured": result.structured_content,
                    "texts": [block.text for block in result.content],
                    "is_error": result.is_error,
                    "meta": result.meta,
                }
            except MCPError as error:
                said = {"failed": error.error.message}
            print(json.dumps(said), flush=True)


asyncio.run(main(*sys.argv[1:]))
