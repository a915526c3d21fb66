/**
 * A stand-in for TorchServe, for tests: its command line, the model of its config.properties,
 * `/ping`, `/predictions/NAME` and batching: a batch leaves when it is full or its first request
 * has waited for maxBatchDelay. A batch takes BASE_MS + ITEM_MS × requests on one worker.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const fail = (message) => {
  console.error(message)
  process.exit(1)
}
const known = new Set(['start', 'foreground', 'ncs', 'disable-token-auth', 'model-store', 'ts-config'])
const flags = {}
for (const argument of process.argv.slice(2)) {
  const [, name, value = true] = /^--([a-z-]+)(?:=(.*))?$/.exec(argument) ?? []
  if (!known.has(name)) fail(`torchserve: error: unrecognized arguments: ${argument}`)
  flags[name] = value
}
if (!flags.foreground) process.exit(0) // The real one goes on in the background.
const properties = Object.fromEntries(
  readFileSync(flags['ts-config'], 'utf8')
    .split('\n')
    .filter((line) => line.includes('=') && !line.startsWith('#'))
    .map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1).trim()]),
)
const [[name, versions]] = Object.entries(JSON.parse(properties.models))
const settings = Object.values(versions)[0]
if (!properties.load_models?.split(',').includes(settings.marName)) fail(`Model archive not loaded: ${settings.marName}`)
const { hostname, port } = new URL(properties.inference_address)
const baseMs = Number(process.env.BASE_MS ?? 1)
const itemMs = Number(process.env.ITEM_MS ?? 0.2)

const waiting = []
let free = settings.minWorkers
let timer
function pump() {
  clearTimeout(timer)
  while (free > 0 && waiting.length > 0) {
    const waitMs = settings.maxBatchDelay - (performance.now() - waiting[0].at)
    if (waiting.length < settings.batchSize && settings.batchSize > 1 && waitMs > 0) {
      timer = setTimeout(pump, waitMs)
      return
    }
    const batch = waiting.splice(0, settings.batchSize)
    free--
    setTimeout(
      () => {
        free++
        for (const { done } of batch) done()
        pump()
      },
      baseMs + itemMs * batch.length,
    )
  }
}

const missing = (code, type, message) => [code, { code, type, message }]
async function answer(method, path, text) {
  if (path === '/ping') return [200, { status: 'Healthy' }]
  if (!path.startsWith('/predictions/')) return missing(404, 'ResourceNotFoundException', 'Requested resource is not found, please refer to API document.')
  if (path !== `/predictions/${name}`) return missing(404, 'ModelNotFoundException', `Model not found: ${path.slice('/predictions/'.length)}`)
  if (method !== 'POST' || text === '') return missing(400, 'BadRequestException', 'Parameter data is required.')
  await new Promise((done) => {
    waiting.push({ done, at: performance.now() })
    setImmediate(pump)
  })
  return [200, { label: 'positive', score: 0.9 }]
}

createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', async () => {
    const [status, body] = await answer(request.method, request.url, Buffer.concat(parts).toString())
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
}).listen(Number(port), hostname, () => console.log(`Inference API bind to: ${properties.inference_address}`))
process.on('SIGTERM', () => process.exit(0))
