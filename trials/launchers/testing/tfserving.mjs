/**
 * A stand-in for TensorFlow Serving, for tests: its flags, its batching_parameters_file and the
 * checks of it, its REST endpoints and their errors, and the batches of its shared batch scheduler.
 * The model is half_plus_two, y = x / 2 + 2, and takes BASE_MS + ITEM_MS × items, padding among
 * them.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const flags = {
  port: '8500',
  rest_api_port: '0',
  model_name: 'default',
  model_base_path: '',
  enable_batching: 'false',
  batching_parameters_file: '',
  tensorflow_intra_op_parallelism: '0',
  tensorflow_inter_op_parallelism: '0',
  rest_api_num_threads: '8',
  per_process_gpu_memory_fraction: '0',
}
const fail = (message) => {
  console.error(message)
  process.exit(1)
}
for (const argument of process.argv.slice(2)) {
  const [, name, value] = /^--([a-z_]+)=(.*)$/.exec(argument) ?? []
  if (name === undefined || !(name in flags)) fail(`unknown argument: ${argument}`)
  flags[name] = value
}
const baseMs = Number(process.env.BASE_MS ?? 1)
const itemMs = Number(process.env.ITEM_MS ?? 0.2)

/**
 * BatchingParameters of session_bundle_config.proto, text format: wrapped numbers, and a repeated
 * one.
 */
function batchingParameters(text) {
  const fields = { max_batch_size: 1000, batch_timeout_micros: 0, num_batch_threads: 2, max_enqueued_batches: 10, allowed_batch_sizes: [] }
  const rest = text.replace(/(\w+)\s*(?:\{\s*value:\s*(\d+)\s*\}|:\s*(\d+))/g, (_, name, wrapped, plain) => {
    if (!(name in fields) || (name === 'allowed_batch_sizes') === (plain === undefined)) fail(`Error parsing text-format BatchingParameters: '${name}'`)
    if (plain === undefined) fields[name] = Number(wrapped)
    else fields.allowed_batch_sizes.push(Number(plain))
    return ''
  })
  if (rest.replace(/#.*$/gm, '').trim() !== '') fail(`Error parsing text-format BatchingParameters: '${rest.trim()}'`)
  const { allowed_batch_sizes: allowed, max_batch_size: most } = fields
  if (allowed.some((size, i) => i > 0 && size <= allowed[i - 1])) fail('Invalid argument: allowed_batch_sizes entries must be monotonically increasing')
  if (allowed.length > 0 && allowed.at(-1) !== most) fail('Invalid argument: final entry in allowed_batch_sizes must equal max_batch_size')
  return fields
}

const versions = existsSync(flags.model_base_path) ? readdirSync(flags.model_base_path).filter((name) => /^\d+$/.test(name)) : []
if (flags.model_base_path === '' || versions.length === 0) fail(`No versions of servable ${flags.model_name} found under base path ${flags.model_base_path}`)
const version = versions.map(Number).sort((a, b) => b - a)[0]
const batching = flags.enable_batching === 'true' ? batchingParameters(flags.batching_parameters_file === '' ? '' : readFileSync(flags.batching_parameters_file, 'utf8')) : undefined

class Refusal extends Error {
  constructor(message, status = 400) {
    super(message)
    this.status = status
  }
}
const run = (items) => new Promise((done) => setTimeout(done, baseMs + itemMs * items))
const waiting = []
let free = batching?.num_batch_threads ?? 0
let timer

/**
 * Open batch: requests are gathered until it is full or its oldest has waited for the timeout, and
 * padded to an allowed size.
 */
function pump() {
  clearTimeout(timer)
  while (free > 0 && waiting.length > 0) {
    let items = 0
    let taken = 0
    while (taken < waiting.length && items + waiting[taken].items <= batching.max_batch_size) items += waiting[taken++].items
    const waitMs = batching.batch_timeout_micros / 1000 - (performance.now() - waiting[0].at)
    if (items < batching.max_batch_size && taken === waiting.length && waitMs > 0) {
      timer = setTimeout(pump, waitMs)
      return
    }
    const batch = waiting.splice(0, taken)
    free--
    run(batching.allowed_batch_sizes.find((size) => size >= items) ?? items).then(() => {
      free++
      for (const { done } of batch) done()
      pump()
    })
  }
}
async function batched(items) {
  const { max_batch_size: most, max_enqueued_batches: enqueued } = batching
  if (items > most) throw new Refusal(`Task size ${items} is larger than maximum input batch size ${most}`)
  const queued = waiting.reduce((sum, task) => sum + task.items, 0)
  if (queued + items > most * enqueued) throw new Refusal('The batch scheduling queue to which this task was submitted is full', 503)
  await new Promise((done) => {
    waiting.push({ items, done, at: performance.now() })
    setImmediate(pump)
  })
}

async function predict(text) {
  let body
  try {
    body = JSON.parse(text)
  } catch {
    throw new Refusal(`JSON Parse error: Invalid value. at offset: 0`)
  }
  const rows = body.instances ?? body.inputs?.x ?? body.inputs
  if (!Array.isArray(rows)) throw new Refusal("Missing 'inputs' or 'instances' key")
  const values = rows.map((row) => (typeof row === 'object' && row !== null ? row.x : row))
  if (values.some((value) => typeof value !== 'number')) throw new Refusal('Failed to process element: 0 of \'instances\' list. Error: Invalid argument: JSON Value has wrong type; Type: Float; x')
  await (batching ? batched(values.length) : run(values.length))
  const answers = values.map((value) => value / 2 + 2)
  return body.instances ? { predictions: answers } : { outputs: answers }
}

const signature = (of) => ({ [of]: { dtype: 'DT_FLOAT', tensor_shape: { dim: [{ size: '-1', name: '' }], unknown_rank: false }, name: `serving_default_${of}:0` } })
async function answer(method, path, text) {
  const [, name, asked, rest = ''] = /^\/v1\/models\/([^/:]+)(?:\/versions\/(\d+))?(\/metadata|:predict)?$/.exec(path) ?? []
  if (name === undefined || (rest === ':predict') !== (method === 'POST')) throw new Refusal(`Malformed request: ${method} ${path}`)
  if (name !== flags.model_name || (asked !== undefined && Number(asked) !== version))
    throw new Refusal(method === 'POST' ? `Servable not found for request: ${asked ? `Specific(${name}, ${asked})` : `Latest(${name})`}` : `Could not find any versions of model ${name}`, 404)
  if (rest === ':predict') return predict(text)
  if (rest === '') return { model_version_status: [{ version: String(version), state: 'AVAILABLE', status: { error_code: 'OK', error_message: '' } }] }
  const serving = { inputs: signature('x'), outputs: signature('y'), method_name: 'tensorflow/serving/predict', defaults: {} }
  return { model_spec: { name, signature_name: '', version: String(version) }, metadata: { signature_def: { signature_def: { serving_default: serving } } } }
}

const server = createServer((request, response) => {
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => {
    answer(request.method, request.url, Buffer.concat(parts).toString())
      .then((found) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(found)))
      .catch((error) => response.writeHead(error.status ?? 500, { 'content-type': 'application/json' }).end(JSON.stringify({ error: error.message })))
  })
})
server.listen(Number(flags.rest_api_port), '0.0.0.0', () => console.log(`Exporting HTTP/REST API at:localhost:${flags.rest_api_port} ...`))
process.on('SIGTERM', () => process.exit(0))
