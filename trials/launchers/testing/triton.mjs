/**
 * A stand-in for NVIDIA Triton, for tests: its HTTP endpoints (health, metadata, configuration,
 * statistics, inference with dynamic batching, model repository), its flags and its checks of a
 * configuration, as its protocol documents have them. The model is y = 2 x, and takes BASE_MS +
 * ITEM_MS × items of waiting for a batch.
 */
import { existsSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'

const flags = { 'model-repository': '', 'model-control-mode': 'none', 'load-model': '', 'http-address': '0.0.0.0', 'http-port': '8000', 'allow-grpc': 'true', 'allow-metrics': 'true' }
for (const argument of process.argv.slice(2)) {
  const [, name, value] = /^--([a-z-]+)=(.*)$/.exec(argument) ?? []
  if (name === undefined || !(name in flags)) {
    console.error(`tritonserver: unrecognized option '${argument}'`)
    process.exit(1)
  }
  flags[name] = value
}
const explicit = flags['model-control-mode'] === 'explicit'
const baseMs = Number(process.env.BASE_MS ?? 1)
const itemMs = Number(process.env.ITEM_MS ?? 0.2)
const memoryItems = Number(process.env.MEMORY_ITEMS ?? 1e9)
const known = new Set(['name', 'platform', 'backend', 'version_policy', 'max_batch_size', 'input', 'output', 'instance_group', 'dynamic_batching', 'default_model_filename', 'optimization', 'parameters'])

/** What Triton completes for an ONNX file without a config.pbtxt. */
const completed = (name) => ({
  name,
  platform: 'onnxruntime_onnx',
  backend: 'onnxruntime',
  version_policy: { latest: { num_versions: 1 } },
  max_batch_size: 4,
  input: [{ name: 'x', data_type: 'TYPE_FP32', format: 'FORMAT_NONE', dims: [3] }],
  output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [3], label_filename: '' }],
  instance_group: [{ name, kind: 'KIND_CPU', count: 1, gpus: [], secondary_devices: [], profile: [], passive: false, host_policy: '' }],
  default_model_filename: 'model.onnx',
  dynamic_batching: { preferred_batch_size: [], max_queue_delay_microseconds: 0, preserve_ordering: false },
})

class Refusal extends Error {
  constructor(message, status = 400) {
    super(message)
    this.status = status
  }
}

const loaded = new Map()
const folderOf = (name) => join(flags['model-repository'], name)
const versionsOf = (name) => (existsSync(folderOf(name)) ? readdirSync(folderOf(name)).filter((entry) => /^\d+$/.test(entry)) : [])

function load(name, text) {
  const refuse = (why) => {
    throw new Refusal(`failed to load '${name}', ${why}`)
  }
  if (versionsOf(name).length === 0) refuse('failed to poll from model repository')
  let config = completed(name)
  if (text !== undefined) {
    try {
      config = JSON.parse(text)
    } catch {
      refuse('unexpected token in the model configuration')
    }
  }
  for (const field of Object.keys(config)) if (!known.has(field)) refuse(`Cannot find field: ${field}`)
  if (config.name !== name) refuse(`unexpected model name '${config.name}'`)
  if (!Number.isInteger(config.max_batch_size) || config.max_batch_size < 0) refuse("'max_batch_size' must be non-negative value")
  for (const size of config.dynamic_batching?.preferred_batch_size ?? [])
    if (size > config.max_batch_size) refuse(`dynamic batching preferred size must be <= max batch size for ${name}`)
  const [group] = config.instance_group
  if (!(group.count >= 1)) refuse(`instance group ${name} must have 'count' >= 1`)
  if (group.count * config.max_batch_size > memoryItems) refuse('Internal: CUDA out of memory: failed to allocate memory')
  loaded.get(name)?.close()
  loaded.set(name, serve(name, config))
}

/** Queue, dynamic batcher and instances of one loaded model. */
function serve(name, config) {
  const batching = config.dynamic_batching
  const largest = Math.max(1, config.max_batch_size)
  const delayMs = Number(batching?.max_queue_delay_microseconds ?? 0) / 1000
  const preferred = batching?.preferred_batch_size ?? []
  const queue = []
  const stats = { last_inference: 0, inference_count: 0, execution_count: 0 }
  let free = config.instance_group[0].count
  let timer
  let open = true
  const take = () => {
    let items = queue[0].items
    let requests = 1
    while (batching && requests < queue.length && items + queue[requests].items <= largest) items += queue[requests++].items
    const waited = performance.now() - queue[0].at
    const full = items >= largest || preferred.includes(items)
    if (batching && !full && waited < delayMs) {
      clearTimeout(timer)
      timer = setTimeout(pump, delayMs - waited)
      return undefined
    }
    return { items, requests: queue.splice(0, requests) }
  }
  const pump = () => {
    while (free > 0 && queue.length > 0) {
      const batch = take()
      if (!batch) return
      free--
      setTimeout(() => {
        free++
        stats.last_inference = Date.now()
        stats.inference_count += batch.items
        stats.execution_count++
        for (const { done } of batch.requests) done()
        pump()
      }, baseMs + itemMs * batch.items)
    }
  }
  return {
    config,
    stats,
    isOpen: () => open,
    close: () => {
      open = false
    },
    infer: (items) => {
      if (items > largest) throw new Refusal(`[request id: <id_unknown>] inference request batch-size must be <= ${largest} for '${name}'`)
      const bound = batching?.default_queue_policy?.max_queue_size
      if (bound && queue.length >= bound) throw new Refusal('[request id: <id_unknown>] Exceeds maximum queue size', 503)
      return new Promise((done) => {
        queue.push({ items, done, at: performance.now() })
        setImmediate(pump)
      })
    },
  }
}

const modelOf = (name) => {
  const model = loaded.get(name)
  if (!model) throw new Refusal(`Request for unknown model: '${name}' is not found`)
  return model
}

async function infer(name, body) {
  const [input] = body.inputs ?? []
  if (input?.name !== 'x' || input.datatype !== 'FP32') throw new Refusal(`unexpected inference input for model '${name}'`)
  const [items, width] = input.shape
  if (width !== 3 || input.data.length !== items * 3) throw new Refusal(`unexpected shape for input 'x' for model '${name}'. Expected [-1,3], got [${input.shape}]`)
  await modelOf(name).infer(items)
  const data = input.data.map((value) => 2 * value)
  return { model_name: name, model_version: '1', outputs: [{ name: 'y', datatype: 'FP32', shape: [items, 3], data }] }
}

async function answer(method, path, text) {
  const body = () => (text === '' ? {} : JSON.parse(text))
  const [, name, rest = ''] = /^\/v2\/models\/([^/]+)(?:\/(.*))?$/.exec(path) ?? []
  const [, controlled, action] = /^\/v2\/repository\/models\/([^/]+)\/(load|unload)$/.exec(path) ?? []
  if (method === 'GET' && /^\/v2\/health\/(live|ready)$/.test(path)) return ''
  if (method === 'GET' && path === '/v2')
    return { name: 'triton', version: '2.70.0', extensions: ['model_repository', 'model_configuration', 'statistics', 'schedule_policy'] }
  if (method === 'POST' && path === '/v2/repository/index')
    return [...loaded.keys()].map((model) => ({ name: model, version: '1', state: 'READY', reason: '' }))
  if (method === 'POST' && controlled) {
    if (!explicit) throw new Refusal('explicit model load / unload is not allowed if polling is enabled', 503)
    if (action === 'load') load(controlled, body().parameters?.config)
    else loaded.delete(controlled)
    return ''
  }
  if (method === 'GET' && name && rest === 'ready') return loaded.has(name) ? '' : undefined
  if (method === 'GET' && name && rest === 'config') return modelOf(name).config
  if (method === 'GET' && name && rest === 'stats') return { model_stats: [{ name, version: '1', ...modelOf(name).stats }] }
  if (method === 'GET' && name && rest === '') {
    const tensor = ({ name: tensorName, dims }) => ({ name: tensorName, datatype: 'FP32', shape: [-1, ...dims] })
    const { config } = modelOf(name)
    return { name, versions: ['1'], platform: config.platform, inputs: config.input.map(tensor), outputs: config.output.map(tensor) }
  }
  if (method === 'POST' && name && rest === 'infer') return infer(name, body())
  return undefined
}

if (flags['load-model'] !== '' || !explicit)
  try {
    for (const name of flags['load-model'] ? [flags['load-model']] : readdirSync(flags['model-repository'])) load(name)
  } catch (error) {
    console.error(`error: creating server: Internal - ${error.message}`)
    process.exit(1)
  }

const server = createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => {
    Promise.resolve()
      .then(() => answer(request.method, request.url, Buffer.concat(parts).toString()))
      .then((found) => {
        if (found === undefined) return response.writeHead(request.url.endsWith('/ready') ? 400 : 404).end()
        response.writeHead(200, { 'content-type': 'application/json' }).end(found === '' ? '' : JSON.stringify(found))
      })
      .catch((error) =>
        response.writeHead(error.status ?? 400, { 'content-type': 'application/json' }).end(JSON.stringify({ error: error.message })),
      )
  })
})
server.listen(Number(flags['http-port']), flags['http-address'], () => console.log(`Started HTTPService at ${flags['http-address']}:${flags['http-port']}`))
process.on('SIGTERM', () => process.exit(0))
