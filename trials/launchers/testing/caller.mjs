// A stage of a pipeline: answers POST /predict after `--calls` calls of `--url`, one after the other.
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'

const flags = Object.fromEntries(
  process.argv.slice(2).map((argument) => argument.replace(/^--/, '').split(/=(.*)/s)),
)
if (flags.pids) appendFileSync(flags.pids, `${process.pid}\n`)

createServer(async (request, response) => {
  if (request.url === '/healthz') return response.end()
  for await (const _ of request);
  const answers = []
  for (let n = 0; n < Number(flags.calls ?? 1); n++) {
    const answer = await fetch(`${flags.url}/predict`, { method: 'POST', body: '{}' })
    answers.push(await answer.json())
  }
  response.end(JSON.stringify({ arguments: process.argv.slice(2), answers }))
}).listen(Number(flags.port), '127.0.0.1')
