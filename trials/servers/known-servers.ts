/**
 * Servers that people run models on: how each is recognised, by its program, the names of its
 * processes or the header `server` of its answers, and which of its arguments are worth tuning. This
 * table feeds `tune init`, its help and docs/reference/server-presets.md. Light: help shows it.
 */
import type { ProtocolName } from '../../profiler/protocols/protocol-table.ts'
import type { LanguageServer, ServerKind } from './server-kinds.ts'

/** An argument, or an environment variable, of a server that is worth tuning. */
export interface ServerKnob {
  /** Name of the parameter. */
  readonly name: string
  /** Spellings of the argument; the first is the one written. */
  readonly args?: readonly [string, ...string[]]
  readonly env?: string
  /** Or its name in the server's settings file. */
  readonly setting?: string
  /** Values as in an experiment file: 1..4, '16..256 x2', [0.8, 0.9]. */
  readonly values: string | readonly (number | string)[]
  readonly what: string
  /** The server reads it only with these values of another argument, or without that argument. */
  readonly under?: { readonly args: readonly string[]; readonly values: readonly string[] }
  /** A switch without which the server ignores it. */
  readonly needs?: string
}

/** Servers of language models that report sequences and cache in their metrics. */
export type LanguageEngine = LanguageServer | 'llama.cpp'

export interface KnownServer {
  readonly title: string
  /** Names of its program, or of its Python module after -m. */
  readonly programs: readonly string[]
  /** Beginning of the header `server` of its answers. */
  readonly header?: string
  readonly protocol?: ProtocolName
  /** The address to listen on, and other arguments that are always set. */
  readonly listens: readonly ServerSetting[]
  readonly knobs: readonly ServerKnob[]
  /** It ignores options after the application. */
  readonly optionsFirst?: boolean
  /** A server with a preset: the arguments that name its model folder and the served model. */
  readonly preset?: { readonly kind: ServerKind; readonly models: string; readonly model?: string }
  /** The word after the program that starts it: vllm serve. */
  readonly subcommand?: string
  /** The word after that one is the model, which the server does not report. */
  readonly modelNext?: true
  /** Its parameters are in a settings file, which is written for each trial. */
  readonly settings?: 'ray-serve'
  /** A remark on its tuning. */
  readonly note?: string
  /** The names of its metrics. */
  readonly engine?: LanguageEngine
  /** The switch without which it has no metrics. */
  readonly counts?: string
}

/** An argument or variable that is always set. */
interface ServerSetting {
  readonly args?: readonly [string, ...string[]]
  readonly env?: string
  readonly value: string
  /** Alternative arguments, which the server rejects in addition to this one. */
  readonly insteadOf?: readonly string[]
}

const port = '${port}'
const host = '${host}'
const bind: readonly ServerSetting[] = [{ args: ['--bind', '-b'], value: `${host}:${port}` }]
const hostAndPort: readonly ServerSetting[] = [
  // With a socket a server does not listen on its port.
  { args: ['--host'], value: host, insteadOf: ['--uds', '--fd'] },
  { args: ['--port'], value: port },
]
const createKnob = (name: string, values: ServerKnob['values'], what: string): ServerKnob => ({
  name,
  values,
  what,
})
/** @param args its spellings; the first is the one written */
const createFlagKnob = (
  name: string,
  args: NonNullable<ServerKnob['args']>,
  values: ServerKnob['values'],
  what: string,
): ServerKnob => ({ ...createKnob(name, values, what), args })
const createVariableKnob = (
  name: string,
  env: string,
  values: ServerKnob['values'],
  what: string,
): ServerKnob => ({ ...createKnob(name, values, what), env })
const createSettingKnob = (
  name: string,
  setting: string,
  values: ServerKnob['values'],
  what: string,
): ServerKnob => ({ ...createKnob(name, values, what), setting })
const workers = (...args: [string, ...string[]]): ServerKnob =>
  createFlagKnob('workers', args, '1..4', 'processes')

export const knownServers = [
  {
    title: 'gunicorn',
    programs: ['gunicorn'],
    header: 'gunicorn',
    listens: bind,
    knobs: [
      workers('--workers', '-w'),
      {
        name: 'threads',
        args: ['--threads'],
        values: '1..8 x2',
        what: 'threads per worker; more than one selects gthread',
        under: { args: ['--worker-class', '-k'], values: ['sync', 'gthread'] },
      },
    ],
  },
  {
    title: 'uvicorn',
    programs: ['uvicorn'],
    header: 'uvicorn',
    listens: hostAndPort,
    knobs: [workers('--workers')],
  },
  {
    title: 'hypercorn',
    programs: ['hypercorn'],
    header: 'hypercorn',
    listens: [
      {
        args: ['--bind', '-b'],
        value: `${host}:${port}`,
        insteadOf: ['--insecure-bind', '--quic-bind'],
      },
    ],
    knobs: [workers('--workers', '-w')],
  },
  {
    title: 'waitress',
    programs: ['waitress-serve'],
    header: 'waitress',
    listens: [
      {
        args: ['--listen'],
        value: `${host}:${port}`,
        insteadOf: ['--host', '--port', '--unix-socket'],
      },
    ],
    optionsFirst: true,
    knobs: [createFlagKnob('threads', ['--threads'], '1..16 x2', 'threads')],
  },
  {
    title: 'uWSGI',
    programs: ['uwsgi', 'uwsgi-core'],
    listens: [
      {
        args: ['--http', '--http-socket'],
        value: `${host}:${port}`,
        insteadOf: ['--socket', '-s', '--uwsgi-socket'],
      },
    ],
    knobs: [
      createFlagKnob('processes', ['--processes', '-p'], '1..4', 'processes'),
      createFlagKnob('threads', ['--threads'], '1..8 x2', 'threads per process'),
    ],
  },
  {
    title: 'Puma',
    programs: ['puma'],
    listens: [
      { args: ['--bind', '-b'], value: `tcp://${host}:${port}`, insteadOf: ['--port', '-p'] },
    ],
    knobs: [
      workers('--workers', '-w'),
      createFlagKnob('threads', ['--threads', '-t'], '1..8 x2', 'threads per worker'),
    ],
  },
  {
    title: 'NVIDIA Triton',
    programs: ['tritonserver'],
    protocol: 'oip-v2',
    listens: [],
    preset: { kind: 'triton', models: '--model-repository' },
    knobs: [
      createKnob('batchSize', '1..32', '`max_batch_size`'),
      createKnob('maxDelayMs', [0, 1, 5], '`max_queue_delay_microseconds`, in ms'),
      createKnob('instances', '1..2', '`instance_group.count`'),
    ],
  },
  {
    title: 'TensorFlow Serving',
    programs: ['tensorflow_model_server'],
    protocol: 'tfserving',
    listens: [],
    preset: { kind: 'tfserving', models: '--model_base_path', model: '--model_name' },
    knobs: [
      createKnob('batchSize', '1..64', '`max_batch_size`'),
      createKnob('maxDelayMs', [0, 1, 5], '`batch_timeout_micros`, in ms'),
      createKnob('numBatchThreads', '1..4', '`num_batch_threads`'),
    ],
  },
  {
    title: 'vLLM',
    programs: ['vllm', 'vllm.entrypoints.openai.api_server'],
    subcommand: 'serve',
    protocol: 'openai',
    engine: 'vllm',
    listens: hostAndPort,
    knobs: [
      createFlagKnob(
        'maxNumSeqs',
        ['--max-num-seqs'],
        '16..256 x2',
        'maximum concurrent sequences',
      ),
      createFlagKnob(
        'maxNumBatchedTokens',
        ['--max-num-batched-tokens'],
        '2048..16384 x2',
        'maximum tokens per step',
      ),
      createFlagKnob(
        'gpuMemoryUtilization',
        ['--gpu-memory-utilization'],
        [0.8, 0.9, 0.95],
        'share of the GPU memory, 0-1',
      ),
    ],
  },
  {
    title: 'SGLang',
    programs: ['sglang.launch_server'],
    protocol: 'openai',
    engine: 'sglang',
    counts: '--enable-metrics',
    listens: hostAndPort,
    knobs: [
      createFlagKnob(
        'maxRunningRequests',
        ['--max-running-requests'],
        '16..256 x2',
        'maximum concurrent requests',
      ),
      createFlagKnob(
        'chunkedPrefillSize',
        ['--chunked-prefill-size'],
        '2048..8192 x2',
        'tokens per prefill chunk',
      ),
      createFlagKnob(
        'memFractionStatic',
        ['--mem-fraction-static'],
        [0.7, 0.8, 0.88],
        'share of the GPU memory, 0-1',
      ),
    ],
  },
  {
    title: 'TensorRT-LLM',
    programs: ['trtllm-serve'],
    protocol: 'openai',
    listens: hostAndPort,
    knobs: [
      createFlagKnob(
        'maxNumSeqs',
        ['--max_batch_size'],
        '16..256 x2',
        'maximum concurrent requests',
      ),
      createFlagKnob(
        'maxNumBatchedTokens',
        ['--max_num_tokens'],
        '2048..16384 x2',
        'maximum tokens per step',
      ),
      createFlagKnob(
        'gpuMemoryUtilization',
        ['--free_gpu_memory_fraction', '--kv_cache_free_gpu_memory_fraction'],
        [0.8, 0.9, 0.95],
        'share of the memory left after the weights, 0-1',
      ),
    ],
  },
  {
    title: 'MLServer',
    programs: ['mlserver'],
    subcommand: 'start',
    protocol: 'oip-v2',
    listens: [
      { env: 'MLSERVER_HOST', value: host },
      { env: 'MLSERVER_HTTP_PORT', value: port },
      { env: 'MLSERVER_GRPC_PORT', value: '0' },
    ],
    knobs: [
      createVariableKnob(
        'parallelWorkers',
        'MLSERVER_PARALLEL_WORKERS',
        '0..2',
        'worker processes; 0: none besides the main process',
      ),
      createVariableKnob(
        'batchSize',
        'MLSERVER_MODEL_MAX_BATCH_SIZE',
        '2..32 x2',
        'maximum requests per batch',
      ),
      createVariableKnob(
        'maxBatchTime',
        'MLSERVER_MODEL_MAX_BATCH_TIME',
        [0.001, 0.005, 0.02],
        'maximum wait for a batch, seconds',
      ),
    ],
  },
  {
    title: 'llama-server',
    programs: ['llama-server'],
    header: 'llama.cpp',
    protocol: 'openai',
    engine: 'llama.cpp',
    counts: '--metrics',
    // As many as cores: more threads wait for one another.
    listens: [...hostAndPort, { args: ['--threads', '-t'], value: '${cpuCores}' }],
    knobs: [
      createFlagKnob('parallel', ['--parallel', '-np'], '1..8 x2', 'maximum concurrent sequences'),
      createFlagKnob(
        'ubatchSize',
        ['--ubatch-size', '-ub'],
        '128..512 x2',
        'maximum tokens per step',
      ),
    ],
  },
  {
    title: 'Transformers',
    programs: ['transformers'],
    subcommand: 'serve',
    modelNext: true,
    protocol: 'openai',
    listens: hostAndPort,
    knobs: [
      {
        name: 'cbMaxBatchTokens',
        args: ['--cb-max-batch-tokens'],
        values: '256..4096 x2',
        what: 'maximum tokens per step',
        needs: '--continuous-batching',
      },
    ],
    note: 'without `--continuous-batching` it answers requests one at a time',
  },
  {
    title: 'BentoML',
    programs: ['bentoml'],
    subcommand: 'serve',
    listens: [
      // With a socket a server does not listen on its port.
      { args: ['--host'], value: host, insteadOf: ['--uds', '--fd'] },
      { args: ['--port', '-p'], value: port },
    ],
    knobs: [createFlagKnob('apiWorkers', ['--api-workers'], '1..4', 'worker processes')],
  },
  {
    title: 'Ray Serve',
    programs: ['serve'],
    subcommand: 'run',
    listens: [],
    settings: 'ray-serve',
    knobs: [
      createSettingKnob('replicas', 'num_replicas', '1..4', 'replicas of each deployment'),
      createSettingKnob(
        'maxOngoingRequests',
        'max_ongoing_requests',
        '4..64 x2',
        'maximum concurrent requests per replica',
      ),
      createSettingKnob(
        'numCpus',
        'ray_actor_options.num_cpus',
        [0.5, 1],
        'cores that each replica requests',
      ),
    ],
    note: 'tune writes the configuration file of `serve run FILE` for each trial; for `serve run app:app`, create one with `serve build app:app -o serve.yaml`',
  },
] as const satisfies readonly KnownServer[]

/** For `tune init --help`. */
export const knownServerTitles: readonly string[] = knownServers.map(({ title }) => title)
