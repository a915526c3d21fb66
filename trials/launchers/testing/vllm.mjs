/**
 * A stand-in for `vllm serve`, for tests: the flags that are tuned of it, its OpenAI endpoints,
 * streams of a token each STEP_MS, and no more sequences at once than --max-num-seqs says; others
 * wait.
 */
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const [subcommand, model, ...words] = process.argv.slice(2)
const flags = { '--host': '0.0.0.0', '--port': '8000', '--max-num-seqs': '256', '--max-num-batched-tokens': '2048', '--gpu-memory-utilization': '0.9' }
const fail = (message) => {
  console.error(`vllm: error: ${message}`)
  process.exit(2)
}
if (subcommand !== 'serve' || model === undefined || model.startsWith('-')) fail('usage: vllm serve MODEL [options]')
for (let i = 0; i < words.length; i += 2) {
  if (!(words[i] in flags) || words[i + 1] === undefined) fail(`unrecognized arguments: ${words[i]}`)
  flags[words[i]] = words[i + 1]
}
if (!(Number(flags['--gpu-memory-utilization']) <= 1)) fail('argument --gpu-memory-utilization: invalid float value')
const stepMs = Number(process.env.STEP_MS ?? 2)
const most = Number(flags['--max-num-seqs'])
let running = 0
const waiting = []

createServer((request, response) => {
  const answer = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (request.url === '/health') return response.end()
  if (request.url === '/v1/models') return answer(200, { object: 'list', data: [{ id: model, object: 'model', owned_by: 'vllm' }] })
  if (request.method !== 'POST' || !/^\/v1\/(chat\/)?completions$/.test(request.url)) return answer(404, { detail: 'Not Found' })
  let text = ''
  request.on('data', (chunk) => {
    text += chunk
  })
  request.on('end', async () => {
    const asked = JSON.parse(text)
    if (asked.model !== model) return answer(404, { error: { message: `The model \`${asked.model}\` does not exist.`, code: 404 } })
    if (running >= most) await new Promise((resolve) => waiting.push(resolve))
    running++
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const chat = request.url.includes('chat')
    const tokens = Math.min(Number(asked.max_tokens ?? asked.max_completion_tokens ?? 16), 32)
    for (let token = 0; token < tokens; token++) {
      await sleep(stepMs)
      const choice = chat ? { index: 0, delta: { content: ` w${token}` } } : { index: 0, text: ` w${token}` }
      response.write(`data: ${JSON.stringify({ object: chat ? 'chat.completion.chunk' : 'text_completion', choices: [choice] })}\n\n`)
    }
    response.end('data: [DONE]\n\n')
    running--
    waiting.shift()?.()
  })
}).listen(Number(flags['--port']), flags['--host'])
