/**
 * A stand-in for NVIDIA Triton, for tests: its HTTP endpoints (health, metadata, configuration,
 * statistics, inference with dynamic batching, model repository), its flags and its checks of a
 * configuration, as its protocol documents have them. Every model doubles the sum of its inputs, and
 * takes BASE_MS + ITEM_MS × items of waiting for a batch; the parameters base_ms and item_ms of its
 * config.pbtxt come first. An ensemble runs its steps by their tensors. A model whose parameter
 * bls_calls names others calls each of them while it holds its instance, as BLS models do.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'

const flags = { 'model-repository': '', 'model-control-mode': 'none', 'load-model': '', 'http-address': '0.0.0.0', 'http-port': '8000', 'allow-grpc': 'true', 'allow-metrics': 'true' }
const modelsToLoad = []
for (const argument of process.argv.slice(2)) {
  const [, name, value] = /^--([a-z-]+)=(.*)$/.exec(argument) ?? []
  if (name === undefined || !(name in flags)) {
    console.error(`tritonserver: unrecognized option '${argument}'`)
    process.exit(1)
  }
  if (name === 'load-model') modelsToLoad.push(value)
  flags[name] = value
}
const explicit = flags['model-control-mode'] === 'explicit'
const baseMs = Number(process.env.BASE_MS ?? 1)
const itemMs = Number(process.env.ITEM_MS ?? 0.2)
const memoryItems = Number(process.env.MEMORY_ITEMS ?? 1e9)
const known = new Set(['name', 'platform', 'backend', 'version_policy', 'max_batch_size', 'input', 'output', 'instance_group', 'dynamic_batching', 'default_model_filename', 'optimization', 'parameters', 'ensemble_scheduling', 'sequence_batching'])

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

/** Fields that are lists even if they are written once, and maps of key and value. */
const lists = new Set(['input', 'output', 'dims', 'instance_group', 'gpus', 'step', 'preferred_batch_size'])
const maps = new Set(['parameters', 'input_map', 'output_map'])

/** Reads protocol buffer text format, as far as config.pbtxt files of tests go. */
function parseText(text) {
  const words = text.match(/#[^\n]*|"(?:[^"\\]|\\.)*"|[\w.+-]+|[{}[\]]/g).filter((word) => !word.startsWith('#'))
  let at = 0
  const value = () => {
    const word = words[at++]
    if (word === '{') return message()
    if (word === '[') {
      const items = []
      while (words[at] !== ']') items.push(value())
      at++
      return items
    }
    if (word.startsWith('"')) return JSON.parse(word)
    return Number.isNaN(Number(word)) ? word : Number(word)
  }
  const message = () => {
    const fields = {}
    while (at < words.length && words[at] !== '}') {
      const name = words[at++]
      const read = value()
      if (maps.has(name)) for (const { key, value: set } of [read].flat()) fields[name] = { ...fields[name], [key]: set }
      else if (lists.has(name)) fields[name] = [...(fields[name] ?? []), ...[read].flat()]
      else fields[name] = read
    }
    at++
    return fields
  }
  return message()
}

const loaded = new Map()
const folderOf = (name) => join(flags['model-repository'], name)
const versionsOf = (name) => (existsSync(folderOf(name)) ? readdirSync(folderOf(name)).filter((entry) => /^\d+$/.test(entry)) : [])
const stepsOf = (config) => config?.ensemble_scheduling?.step ?? []

/** The model as its repository has it. */
function read(name) {
  const path = join(folderOf(name), 'config.pbtxt')
  if (!existsSync(path)) return completed(name)
  const own = parseText(readFileSync(path, 'utf8'))
  if (own.ensemble_scheduling) return own
  const { dynamic_batching: _, backend: __, platform: ___, ...rest } = completed(name)
  const groups = (own.instance_group ?? rest.instance_group).map((group) => ({ ...rest.instance_group[0], ...group }))
  return { ...rest, max_batch_size: 0, ...own, instance_group: groups }
}

function load(name, text) {
  const refuse = (why) => {
    throw new Refusal(`failed to load '${name}', ${why}`)
  }
  if (versionsOf(name).length === 0) refuse('failed to poll from model repository')
  let config = text === undefined ? read(name) : undefined
  if (text !== undefined) {
    try {
      config = JSON.parse(text)
    } catch {
      refuse('unexpected token in the model configuration')
    }
  }
  for (const field of Object.keys(config)) if (!known.has(field)) refuse(`Cannot find field: ${field}`)
  if (config.name !== name) refuse(`unexpected model name '${config.name}'`)
  if (!Number.isInteger(config.max_batch_size ?? 0) || config.max_batch_size < 0) refuse("'max_batch_size' must be non-negative value")
  for (const size of config.dynamic_batching?.preferred_batch_size ?? [])
    if (size > config.max_batch_size) refuse(`dynamic batching preferred size must be <= max batch size for ${name}`)
  if (config.dynamic_batching && config.sequence_batching) refuse('dynamic batching and sequence batching are exclusive')
  if (config.ensemble_scheduling) {
    if (config.instance_group || config.dynamic_batching) refuse(`instance group or dynamic batching should not be specified for ensemble '${name}'`)
    // Loading an ensemble loads the models that it calls as their repository has them.
    for (const { model_name: step } of stepsOf(config)) if (!loaded.has(step) || loaded.get(step).overridden) load(step)
    checkEnsemble(name, config, refuse)
    loaded.set(name, serveEnsemble(name, config))
    return
  }
  const [group] = config.instance_group
  if (!(group.count >= 1)) refuse(`instance group ${name} must have 'count' >= 1`)
  if (group.count * config.max_batch_size > memoryItems) refuse('Internal: CUDA out of memory: failed to allocate memory')
  loaded.get(name)?.close()
  loaded.set(name, { ...serve(name, config), overridden: text !== undefined })
  // Ensembles that call it are checked again; an invalid one is not available.
  for (const [ensemble, { config: its }] of loaded)
    if (stepsOf(its).some((step) => step.model_name === name)) checkEnsemble(ensemble, its, () => loaded.delete(ensemble))
}

function checkEnsemble(name, config, refuse) {
  for (const { model_name: step } of stepsOf(config)) {
    const size = loaded.get(step).config.max_batch_size
    if (size && size < config.max_batch_size) refuse(`ensemble ${name} allows maximum batch size ${config.max_batch_size}, but it contains model ${step} which only allows maximum batch size to be ${size}`)
  }
}

const emptyStats = () => ({ last_inference: 0, inference_count: 0, execution_count: 0, inference_stats: { success: duration(), queue: duration(), ...computation() }, batch_stats: [] })
const duration = () => ({ count: 0, ns: 0 })
const computation = () => ({ compute_input: duration(), compute_infer: duration(), compute_output: duration() })
const add = (to, ms, count = 1) => {
  to.count += count
  to.ns += Math.round(ms * 1e6)
}

/** Runs each step once all of its tensors are there; each item of a request is one of each step. */
function serveEnsemble(name, config) {
  const stats = emptyStats()
  return {
    config,
    stats,
    infer: async (items, tensors) => {
      const startedAt = performance.now()
      const known = { ...tensors }
      const left = new Set(stepsOf(config))
      const run = async (step) => {
        left.delete(step)
        const inputs = Object.fromEntries(Object.entries(step.input_map).map(([key, tensor]) => [key, known[tensor]]))
        const outputs = await modelOf(step.model_name).infer(items, inputs)
        for (const [key, tensor] of Object.entries(step.output_map)) known[tensor] = outputs[key]
        await Promise.all(ready().map(run))
      }
      const ready = () => [...left].filter((step) => Object.values(step.input_map).every((tensor) => tensor in known))
      await Promise.all(ready().map(run))
      stats.inference_count += items
      stats.execution_count++
      add(stats.inference_stats.success, performance.now() - startedAt)
      return Object.fromEntries(config.output.map((output) => [output.name, known[output.name]]))
    },
  }
}

/** Queue, dynamic batcher and instances of one loaded model. */
function serve(name, config) {
  const batching = config.dynamic_batching
  const largest = Math.max(1, config.max_batch_size)
  const delayMs = Number(batching?.max_queue_delay_microseconds ?? 0) / 1000
  const preferred = batching?.preferred_batch_size ?? []
  const queue = []
  const stats = emptyStats()
  const read = (parameter) => config.parameters?.[parameter]?.string_value
  const [ownBaseMs, ownItemMs] = [Number(read('base_ms') ?? baseMs), Number(read('item_ms') ?? itemMs)]
  const called = read('bls_calls')?.split(',') ?? []
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
      const startedAt = performance.now()
      const finish = () => {
        free++
        const computedMs = performance.now() - startedAt
        stats.last_inference = Date.now()
        stats.inference_count += batch.items
        stats.execution_count++
        let ofSize = stats.batch_stats.find((one) => one.batch_size === batch.items)
        if (!ofSize) stats.batch_stats.push((ofSize = { batch_size: batch.items, ...computation() }))
        add(ofSize.compute_infer, computedMs)
        for (const { at, done, tensors } of batch.requests) {
          add(stats.inference_stats.success, performance.now() - at)
          add(stats.inference_stats.queue, startedAt - at)
          add(stats.inference_stats.compute_infer, computedMs)
          done(compute(config, tensors))
        }
        pump()
      }
      setTimeout(async () => {
        for (const other of called) for (const { items, tensors } of batch.requests) await modelOf(other).infer(items, tensors)
        finish()
      }, ownBaseMs + ownItemMs * batch.items)
    }
  }
  return {
    config,
    stats,
    isOpen: () => open,
    close: () => {
      open = false
    },
    infer: (items, tensors) => {
      if (items > largest) throw new Refusal(`[request id: <id_unknown>] inference request batch-size must be <= ${largest} for '${name}'`)
      const bound = batching?.default_queue_policy?.max_queue_size
      if (bound && queue.length >= bound) throw new Refusal('[request id: <id_unknown>] Exceeds maximum queue size', 503)
      return new Promise((done) => {
        queue.push({ items, tensors, done, at: performance.now() })
        setImmediate(pump)
      })
    },
  }
}

/** Every output is twice the sum of the inputs. */
function compute(config, tensors) {
  const [first, ...others] = Object.values(tensors)
  const data = first.map((value, i) => 2 * others.reduce((total, other) => total + other[i], value))
  return Object.fromEntries(config.output.map(({ name }) => [name, data]))
}

const modelOf = (name) => {
  const model = loaded.get(name)
  if (!model) throw new Refusal(`Request for unknown model: '${name}' is not found`)
  return model
}

async function infer(name, body) {
  const model = modelOf(name)
  const { config } = model
  const inputs = body.inputs ?? []
  const items = inputs[0]?.shape[0]
  for (const { name: input, dims } of config.input) {
    const given = inputs.find((one) => one.name === input)
    if (given?.datatype !== 'FP32') throw new Refusal(`unexpected inference input for model '${name}'`)
    const expected = config.max_batch_size > 0 ? [items, ...dims] : dims
    if (given.shape.length !== expected.length || given.shape.some((size, i) => size !== expected[i]) || given.data.length !== expected.reduce((product, size) => product * size))
      throw new Refusal(`unexpected shape for input '${input}' for model '${name}'. Expected [${config.max_batch_size > 0 ? [-1, ...dims] : dims}], got [${given.shape}]`)
  }
  const count = config.max_batch_size > 0 ? items : 1
  if (count > Math.max(1, config.max_batch_size)) throw new Refusal(`[request id: <id_unknown>] inference request batch-size must be <= ${config.max_batch_size} for '${name}'`)
  const outputs = await model.infer(count, Object.fromEntries(inputs.map((input) => [input.name, input.data])))
  const shape = (dims) => (config.max_batch_size > 0 ? [items, ...dims] : dims)
  return { model_name: name, model_version: '1', outputs: config.output.map((output) => ({ name: output.name, datatype: 'FP32', shape: shape(output.dims), data: outputs[output.name] })) }
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
    const { config } = modelOf(name)
    const tensor = ({ name: tensorName, dims }) => ({ name: tensorName, datatype: 'FP32', shape: config.max_batch_size > 0 ? [-1, ...dims] : dims })
    return { name, versions: ['1'], platform: config.platform ?? config.backend, inputs: config.input.map(tensor), outputs: config.output.map(tensor) }
  }
  if (method === 'POST' && name && rest === 'infer') return infer(name, body())
  return undefined
}

if (modelsToLoad.length > 0 || !explicit)
  try {
    const names = modelsToLoad.length > 0 ? modelsToLoad : readdirSync(flags['model-repository'])
    for (const name of names) if (!loaded.has(name)) load(name)
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
console.log('This is a stand-in for Triton, for tests: its models compute nothing of use.')
server.listen(Number(flags['http-port']), flags['http-address'], () => console.log(`Started HTTPService at ${flags['http-address']}:${flags['http-port']}`))
process.on('SIGTERM', () => process.exit(0))
