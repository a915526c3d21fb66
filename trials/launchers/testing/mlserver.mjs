/**
 * A stand-in for MLServer, for tests: `start FOLDER` with its settings.json and
 * model-settings.json, the Open Inference Protocol over REST, and adaptive batching as its
 * documents have it. A batch takes BASE_MS + ITEM_MS × items; `parallel_workers` batches run at
 * once, one without workers.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'

const [command, folder] = process.argv.slice(2)
const fail = (message) => {
  console.error(message)
  process.exit(2)
}
if (command !== 'start' || folder === undefined) fail('Usage: mlserver start [OPTIONS] FOLDER')
const read = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'))
const settings = { host: '0.0.0.0', http_port: 8080, grpc_port: 8081, parallel_workers: 1, ...read('settings.json') }
const model = { max_batch_size: 0, max_batch_time: 0, inputs: [], outputs: [], ...read('model-settings.json') }
if (!model.implementation) fail('pydantic: ModelSettings: implementation: field required')
const batching = model.max_batch_size > 1 && model.max_batch_time > 0
const most = batching ? model.max_batch_size : 1
const baseMs = Number(process.env.BASE_MS ?? 1)
const itemMs = Number(process.env.ITEM_MS ?? 0.2)

const waiting = []
let free = Math.max(1, settings.parallel_workers)
let timer
function pump() {
  clearTimeout(timer)
  while (free > 0 && waiting.length > 0) {
    const waitMs = batching ? model.max_batch_time * 1000 - (performance.now() - waiting[0].at) : 0
    if (waiting.length < most && waitMs > 0) {
      timer = setTimeout(pump, waitMs)
      return
    }
    const batch = waiting.splice(0, most)
    free--
    setTimeout(
      () => {
        free++
        for (const { done } of batch) done()
        pump()
      },
      baseMs + itemMs * batch.reduce((sum, { items }) => sum + items, 0),
    )
  }
}

async function answer(method, path, text) {
  if (method === 'GET' && /^\/v2\/health\/(live|ready)$/.test(path)) return {}
  const [, name, rest = ''] = /^\/v2\/models\/([^/]+)(\/ready|\/infer)?$/.exec(path) ?? []
  if (name === undefined) return [404, { detail: 'Not Found' }]
  if (name !== model.name) return [404, { error: `Model ${name} not found` }]
  if (method === 'GET' && rest === '/ready') return {}
  if (method === 'GET' && rest === '') return { name, versions: [], platform: '', inputs: model.inputs, outputs: model.outputs, parameters: {} }
  if (method !== 'POST' || rest !== '/infer') return [405, { detail: 'Method Not Allowed' }]
  const {
    id = 'x',
    inputs: [input] = [],
  } = JSON.parse(text)
  if (!Array.isArray(input?.shape) || input.data.flat().length !== input.shape.reduce((a, b) => a * b, 1)) return [422, { detail: 'inputs: field required' }]
  const items = input.shape[0]
  await new Promise((done) => {
    waiting.push({ items, done, at: performance.now() })
    setImmediate(pump)
  })
  const outputs = model.outputs.map(({ name: output, datatype }) => ({ name: output, datatype, shape: [items, 1], data: Array(items).fill(0) }))
  return { model_name: name, id, parameters: {}, outputs }
}

createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', async () => {
    const found = await answer(request.method, request.url, Buffer.concat(parts).toString())
    const [status, body] = Array.isArray(found) ? found : [200, found]
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
}).listen(settings.http_port, settings.host, () => console.log(`[mlserver] INFO - Uvicorn running on http://${settings.host}:${settings.http_port}`))
process.on('SIGTERM', () => process.exit(0))
