/**
 * What is fuzzed: each reader of something from outside, with inputs to begin from. What it throws
 * must be an error for users, that says where.
 */
import type { EventEmitter } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { Http1Answer } from '../../../profiler/load/http1-answer.ts'
import { TokenStream } from '../../../profiler/load/token-stream.ts'
import {
  evaluateMetric,
  formatMetric,
  listMetricNames,
  parseMetric,
} from '../../../profiler/prometheus.ts'
import { checkPayload } from '../../../profiler/protocols/content.ts'
import { readConversations } from '../../../profiler/protocols/conversations.ts'
import { protocolNames, protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { loadTokenCounter } from '../../../profiler/protocols/tokenizer.ts'
import {
  byteLevelTokenizer,
  sentencePieceTokenizer,
} from '../../../profiler/testing/tokenizer-files.ts'
import { wire } from '../../../profiler/testing/wire.ts'
import { readSegments } from '../../../reports/fleet/segment-table.ts'
import { importTrials } from '../../../reports/imports/imported-trials.ts'
import { recommend } from '../../../reports/recommendation/recommend.ts'
import { toDocument } from '../../../reports/report/recommendation-json.ts'
import { sampleInput } from '../../../reports/samples.contract.ts'
import { patchManifests } from '../../../reports/specs/patch/patch-manifests.ts'
import { serving } from '../../../reports/specs/spec-samples.contract.ts'
import { parseArchitecture, parseGpus } from '../../../trials/devices/custom-devices.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { parsePriceBook } from '../../../trials/prices/parse-book.ts'
import { Knobs } from '../../../trials/servers/knobs.ts'
import { TextProtoError } from '../../../trials/servers/text-proto.ts'
import { createTritonTuning, tuneConfigText } from '../../../trials/servers/triton.ts'
import { openReader, openStore } from '../../../trials/store/index.ts'
import { completeTrial } from '../../../trials/store/samples.contract.ts'
import { readFleetFile } from '../../cli/commands/fleet/fleet-file.ts'
import { loadRecommendation } from '../../cli/commands/load-recommendation.ts'
import {
  LogSample,
  parseFieldFlags,
  parseRequest,
} from '../../cli/commands/watch/access-log/index.ts'
import { createProgram, loadCommands } from '../../cli/tune-program.ts'
import type { FlagValues } from '../../config/flags/flags.ts'
import { loadExperiment } from '../../config/load-experiment.ts'
import { readLengths } from '../../config/recorded-lengths.ts'
import { readRequestTrace } from '../../config/request-trace.ts'
import { readTrace } from '../../config/trace.ts'
import { serving as answering } from './answering-server.ts'
import { fleetSeeds } from './fleet-seeds.ts'
import { ends, fields, frame, frameKind, grpcMessage, speaking } from './frames.ts'

export interface Fuzzed {
  /** Valid, or nearly so. */
  readonly seeds: readonly string[] | readonly Buffer[]
  /** What errors must name: a file or a flag. */
  readonly names?: RegExp
  /** @param file holds the input */
  read(input: Buffer, file: string): unknown
}

const host = { cwd: tmpdir(), machine: { cpuCores: 2, gpus: [] } }
const text = (input: Buffer) => input.toString('utf8')

const ofRepository = (path: string) =>
  readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), 'utf8')
const experiment = `model: bert
slo: p99<50ms
predictor:
  command: [server, --port, '\${port}', --threads, '\${threads}']
  env: {TOKEN: '\${env:TOKEN}'}
  protocol: oip-v2
  readyTimeout: 60s
  files: {a/b.conf: 'n = \${threads}'}
space: {threads: {values: [1, 2, 4], category: server}, batch: {min: 1, max: 64, scale: log, category: env}}
pin: {cpuCores: 1}
constraints: ['threads * 2 <= batch', 'batch > 1 || threads == 1']
load: {trialTime: 10s, payload: {count: 8, items: '1:3, 8:1'}}
budget: {maxTrials: 10, timeLimit: 1h, cost: $3}
expect: {outputs.0.data.0: 1}
stop: {certainty: 95%, tolerance: 5%}
`
const flags = JSON.stringify({
  model: 'bert',
  slo: '50ms',
  gpus: 'T4,L4',
  maxTrials: '5',
  timeLimit: '10m',
  rps: '100',
  constraint: ['batchSize > 1'],
})
const trace = 'ms,items,body\n0,1,0\n12.5,2,1\n14,1,2\n'
const answer =
  '{"model_name": "m", "id": "0", "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1.5]}]}'
const metadata =
  '{"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}]}'
const predictions = '{"predictions": [[0.5, 1.5]]}'
const signatures =
  '{"model_spec": {"name": "m"}, "metadata": {"signature_def": {"signature_def": {"serving_default": {"inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "3"}]}}}, "outputs": {"y": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "2"}]}}}}}}}}'
const stream =
  'data: {"model": "m", "choices": [{"delta": {"content": "a"}}]}\n\ndata: {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}\n\ndata: [DONE]\n\n'
const said =
  '[{"id": "a", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]}]'
const http = (body: string) =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
const chunked = `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nkeep-alive: timeout=5\r\n\r\n5;x=y\r\nhello\r\n0\r\nt: u\r\n\r\n`

const http1 = (input: Buffer) => {
  const read = new Http1Answer(() => {})
  // Cut at places that depend on the input alone.
  for (let at = 0; at < input.length; at += 1 + (input[at]! % 64))
    read.push(input.subarray(at, at + 1 + (input[at]! % 64)))
  return read.handleConnectionEnd()
}
const tokens = (input: Buffer) => {
  const read = new TokenStream()
  for (let at = 0; at < input.length; at += 97) read.push(input.subarray(at, at + 97), at)
  return [read.failure, read.text.length, read.times?.tokens]
}
const metricsPage =
  '# TYPE depth gauge\ndepth{m="a\\"b",n="x\\\\"} 3 1700000000000\n# TYPE w histogram\nw_bucket{le="+Inf"} 3\nw_sum 3\nw_count 3\nasked_total 3e3\nlimit +Inf\nnone NaN'

/** A line of any log: what is read of it are figures. */
function accessLog(input: Buffer): void {
  const line = text(input)
  const fields = parseFieldFlags([], undefined)
  const sample = new LogSample(fields, undefined)
  sample.add(line)
  const request = parseRequest(line, sample.recognise('input', fields), fields)
  if (
    request &&
    !(
      Number.isFinite(request.atS) &&
      (request.latencyMs ?? 0) >= 0 &&
      (request.status === undefined || request.status > 0)
    )
  )
    throw new TypeError(`read as ${JSON.stringify(request)}`)
}

/**
 * Two looks at a server's metrics: each that has a name is read, and its series are told so that
 * they are found again.
 */
function metrics(input: Buffer): void {
  const [first = '', last = first] = text(input).split('\n\n')
  const looks = [first, last].map((page, atS) => ({ atS, text: page }))
  for (const name of listMetricNames(last)) {
    const value = evaluateMetric({ name }, [looks])
    if (value !== undefined && typeof value !== 'number')
      throw new TypeError(`${name} is read as ${typeof value}`)
    if (parseMetric(formatMetric({ name, labels: { of: first } }))?.labels?.of !== first)
      throw new TypeError(`labels of ${name} are lost`)
  }
}

/** Bytes of a sound store with an experiment of three trials. */
async function makeStore(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-fuzz-'))
  const path = join(folder, 'tune.db')
  try {
    const store = await openStore(path)
    await store.create({
      id: 'e',
      name: 'e',
      createdAt: '2026-11-20T10:00:00.000Z',
      spec: {},
      provenance: 'simulated',
      seed: 1,
    })
    for (const number of [1, 2, 3]) await store.append('e', completeTrial(number))
    await store.close()
    return readFileSync(path)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
let soundStore: Promise<Buffer> | undefined

/** A store with the input's bytes written over it, at a place that they say. */
async function damagedStore(input: Buffer) {
  const folder = mkdtempSync(join(tmpdir(), 'tune-fuzz-'))
  try {
    soundStore ??= makeStore()
    const bytes = Buffer.from(await soundStore)
    for (let i = 0; i + 3 < input.length; i += 4)
      bytes[input.readUIntBE(i, 3) % bytes.length] = input[i + 3]!
    writeFileSync(join(folder, 'a.db'), bytes)
    copyFileSync(join(folder, 'a.db'), join(folder, 'tune.db'))
    const reader = await openReader(join(folder, 'tune.db'), () => {})
    try {
      for (const { id } of await reader.list()) await reader.load(id)
    } finally {
      await reader.close()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A server of a protocol answers with the input, whatever is asked. */
const answers = (input: Buffer, file: string) => answering(input, file)

const manifest = `# ours
apiVersion: apps/v1
kind: Deployment
metadata: {name: bert}
spec:
  replicas: 2 # by hand
  template:
    spec:
      containers:
        - name: server
          image: registry.example/bert:1
          args: [--threads=4]
          env: [{name: BATCH_SIZE, value: '1'}, {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}]
          resources: &r
            limits: {cpu: 8, memory: 16Gi}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: bert}
spec: {minReplicas: 1, maxReplicas: 2}
`
const tuned = serving()

const registers = await loadCommands()

/**
 * Parsed as \`tune\` does, one word a line; an experiment's flags are read further, and nothing
 * runs.
 */
function words(input: Buffer): unknown {
  const program = createProgram(registers).configureOutput({
    writeErr: () => {},
    writeOut: () => {},
  })
  let flags: FlagValues | undefined
  program.action((given: FlagValues) => {
    flags = given
  })
  for (const command of program.commands.flatMap((one) => [one, ...one.commands]))
    command
      .exitOverride()
      .configureOutput({ writeErr: () => {}, writeOut: () => {} })
      .action(() => {})
  const given = text(input).split('\n').slice(0, 200)
  ;(program as unknown as EventEmitter).removeAllListeners('option:version') // Ends the process.
  program.parse(given, { from: 'user' })
  return flags && loadExperiment({ flags, ...host })
}

const status = { ':status': '200', 'content-type': 'application/json' }
const body = Buffer.from(`${metadata.slice(0, -1)}, ${answer.slice(1)}`)
const http2Answer = [
  frame(frameKind.headers, ends.headers, 1, fields(status)),
  frame(frameKind.data, ends.stream, 1, body),
]
const http2Hostile: readonly Buffer[] = [
  // Headers without an end; a length that is none; a message that resets; window and settings of
  // nonsense; data before headers.
  Buffer.concat([
    frame(frameKind.headers, 0, 1, fields(status)),
    ...Array.from({ length: 200 }, () =>
      frame(frameKind.continuation, 0, 1, fields({ 'x-a': 'b'.repeat(100) })),
    ),
  ]),
  Buffer.concat([
    frame(frameKind.headers, ends.headers, 1, fields({ ...status, 'content-length': '9' })),
    frame(frameKind.data, ends.stream, 1, body),
  ]),
  Buffer.concat([
    frame(frameKind.headers, ends.headers, 1, fields(status)),
    frame(frameKind.reset, 0, 1, Buffer.of(0, 0, 0, 2)),
  ]),
  Buffer.concat([
    frame(frameKind.window, 0, 0, Buffer.of(127, 255, 255, 255)),
    frame(frameKind.settings, 0, 0, Buffer.alloc(7)),
    ...http2Answer,
  ]),
  Buffer.concat([frame(frameKind.data, 0, 1, body), ...http2Answer]),
  Buffer.concat([
    frame(frameKind.goaway, 0, 0, Buffer.alloc(8)),
    ...Array.from({ length: 500 }, () => frame(frameKind.ping, 0, 0, Buffer.alloc(8))),
  ]),
]
const mostInFrame = 16_384
const dataFrames = (content: Buffer) =>
  Array.from({ length: Math.ceil(content.length / mostInFrame) }, (_, i) =>
    frame(frameKind.data, 0, 1, content.subarray(i * mostInFrame, (i + 1) * mostInFrame)),
  )
const grpcHeaders = { ':status': '200', 'content-type': 'application/grpc' }
const reply = (
  message: Uint8Array,
  headers: Readonly<Record<string, string>> = grpcHeaders,
  compressed = 0,
) =>
  Buffer.concat([
    frame(frameKind.headers, ends.headers, 1, fields(headers)),
    ...dataFrames(grpcMessage(message, compressed)),
    frame(frameKind.headers, ends.headers + ends.stream, 1, fields({ 'grpc-status': '0' })),
  ])
const twoReplies = (first: Buffer, second: Buffer) =>
  Buffer.concat([first, Buffer.from('\n\n'), second])
const grpcMetadata = wire([1, 'm'], [4, wire([1, 'x'], [2, 'FP32'], [3, Buffer.of(1, 3)])])
const grpcAnswer = wire(
  [1, 'm'],
  [5, wire([1, 'y'], [2, 'FP32'], [3, Buffer.of(1, 1)])],
  [6, Buffer.alloc(4)],
)
const bomb = gzipSync(Buffer.alloc(200 * 2 ** 20))
const gzipped = { ...grpcHeaders, 'grpc-encoding': 'gzip' }
const grpcHostile: readonly Buffer[] = [
  // A bomb; a compression that is not; a length of 4 GiB; messages without an end; a status of
  // words.
  twoReplies(reply(grpcMetadata), reply(bomb, gzipped, 1)),
  twoReplies(reply(grpcMetadata), reply(grpcAnswer, gzipped, 1)),
  Buffer.concat([
    frame(frameKind.headers, ends.headers, 1, fields(grpcHeaders)),
    frame(frameKind.data, 0, 1, Buffer.of(0, 255, 255, 255, 255, 1)),
  ]),
  Buffer.concat([
    frame(frameKind.headers, ends.headers, 1, fields(grpcHeaders)),
    ...Array.from({ length: 300 }, () => frame(frameKind.data, 0, 1, grpcMessage(grpcAnswer))),
  ]),
  frame(
    frameKind.headers,
    ends.headers + ends.stream,
    1,
    fields({ ...grpcHeaders, 'grpc-status': 'fine', 'grpc-message': '%%%E0%A4%A' }),
  ),
]

export const fuzzed: Readonly<Record<string, Fuzzed>> = {
  experiment: {
    seeds: [experiment, ofRepository('examples/experiment.yaml')],
    names: /input|--|TUNE_/,
    read: (_, file) => loadExperiment({ file, ...host }),
  },
  flags: {
    seeds: [flags],
    names: /--|command line/,
    read: (input) => {
      let given: unknown
      try {
        given = JSON.parse(text(input))
      } catch {
        return undefined // Not a command line's.
      }
      const strings = Object.entries(Object(given)).filter(
        ([, value]) =>
          typeof value === 'string' ||
          (Array.isArray(value) && value.every((one) => typeof one === 'string')),
      )
      return loadExperiment({ flags: Object.fromEntries(strings), ...host })
    },
  },
  prices: {
    seeds: [
      'name: on demand\ngpus: { T4: 0.526, L4: 0.805 }\n',
      ofRepository('docs/files/home.yaml'),
    ],
    names: /input/,
    read: (input) =>
      parsePriceBook(text(input), 'input', parseGpus(ofRepository('docs/files/gpus.yaml'), 'gpus')),
  },
  gpus: {
    seeds: [ofRepository('docs/files/gpus.yaml')],
    names: /input/,
    read: (input) => parseGpus(text(input), 'input'),
  },
  tritonConfig: {
    seeds: ['search', 'tokenise'].map((model) =>
      ofRepository(`examples/triton-ensemble/models/${model}/config.pbtxt`),
    ),
    read: (input) => {
      try {
        return tuneConfigText(text(input), createTritonTuning(new Knobs({ batchSize: 4 })))
      } catch (error) {
        // `readRepository` adds the file.
        if (error instanceof TextProtoError) return undefined
        throw error
      }
    },
  },
  architecture: {
    seeds: [ofRepository('docs/files/sentence-encoder/config.json')],
    names: /input/,
    read: (input) => parseArchitecture(text(input), 'input', 'mine'),
  },
  trace: {
    seeds: [trace, '0\n1\n2.5\n'],
    names: /input/,
    read: (_, file) => readTrace(file, 'input'),
  },
  'request-traces': {
    seeds: [
      '{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}\n{"timestamp": 3000, "input_length": 7319, "output_length": 490, "hash_ids": [0, 3]}\n',
    ],
    names: /input/,
    read: (_, file) => {
      renameSync(file, `${file}.jsonl`)
      return [readRequestTrace(`${file}.jsonl`, 'input'), readTrace(`${file}.jsonl`, 'input')]
    },
  },
  'token-lengths': {
    seeds: [
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n',
      'Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n',
      'inputTokens,outputTokens\n10,20\n',
    ],
    names: /input/,
    read: (_, file) => readLengths(file, 'input'),
  },
  'fleet-files': {
    seeds: fleetSeeds.files,
    names: /input/,
    read: (_, file) => readFleetFile(file, defaultPriceBook),
  },
  'fleet-tables': {
    seeds: fleetSeeds.tables,
    names: /input/,
    read: (input) => readSegments(text(input), 'input', undefined, 50),
  },
  recommendations: {
    seeds: [JSON.stringify(toDocument(recommend(sampleInput)))],
    names: /input/,
    read: (_, file) => loadRecommendation(file, { db: 'none' }, '--baseline'),
  },
  'payload-lines': {
    seeds: ['{"a": 1}\n{"b": [1, 2]}\n'],
    names: /input/,
    read: (_, path) => checkPayload({ kind: 'file', path }),
  },
  conversations: { seeds: [said], names: /input/, read: (_, file) => [...readConversations(file)] },
  'payload-texts': {
    seeds: ['one\ntwo words\n'],
    names: /input/,
    read: (_, path) => checkPayload({ kind: 'texts', path, seed: 1 }),
  },
  'tool-results': {
    seeds: [
      ...[
        'metrics-model-inference.csv',
        'metrics-model-gpu.csv',
        'perf-analyzer.csv',
        'guidellm-benchmarks.csv',
        'guidellm-benchmarks.json',
      ],
      ...[
        'profile_export_aiperf.csv',
        'profile_export_aiperf.json',
        'profile_export_aiperf_sweep.csv',
        'profile_export_aiperf_sweep.json',
      ],
      ...[
        'k6-summary-export.json',
        'k6-handle-summary.json',
        'vllm-bench-serve.json',
        'vllm-bench-serve-appended.jsonl',
      ],
    ].map((name) => ofRepository(`reports/imports/fixtures/${name}`)),
    names: /input/,
    read: (input) =>
      importTrials(
        [{ source: { file: 'input', text: text(input) }, configuration: {} }],
        { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
        false,
      ),
  },
  tokenizer: {
    seeds: [byteLevelTokenizer(), sentencePieceTokenizer()].map((each) => JSON.stringify(each)),
    names: /input/,
    read: (_, file) => {
      renameSync(file, `${file}.json`)
      return loadTokenCounter(`${file}.json`)('The other, in 12 words: ünï 😀\n')
    },
  },
  'access-logs': {
    seeds: [
      '10.0.0.1 - - [23/Nov/2026:13:30:21 +0000] "POST /x HTTP/1.1" 200 153 "-" "curl" 0.012',
      '[2026-11-23T13:30:21.000Z] "POST /x HTTP/1.1" 200 - via_upstream - "-" 154 99 226 100 "-" "agent"',
      '{"time":"2026-11-23T13:30:21Z","duration_ms":12,"status":200,"request":{"uri":"/x"}}',
      'time=2026-11-23T13:30:21Z path=/x status=200 duration=126ms',
    ],
    read: accessLog,
  },
  'metrics-pages': {
    seeds: [`${metricsPage}\n\n${metricsPage.replaceAll(' 3', ' 5.5')}`],
    read: metrics,
  },
  http1: {
    seeds: [http(answer), chunked, `HTTP/1.1 100 Continue\r\n\r\n${http('{}')}`],
    read: http1,
  },
  stream: { seeds: [stream], read: tokens },
  store: {
    seeds: [Buffer.alloc(40, 7), Buffer.from(Array.from({ length: 80 }, (_, i) => (i * 37) % 256))],
    read: damagedStore,
  },
  'answers-of-servers': {
    seeds: [
      `${metadata}\n\n${answer}`,
      `${signatures}\n\n${predictions}`,
      `{}\n\n${predictions}`,
      `{}\n\n${stream}`,
    ],
    read: answers,
  },
  manifests: {
    seeds: [manifest],
    names: /input/,
    read: (input) => patchManifests(text(input), tuned, { file: 'input' }),
  },
  'command-lines': {
    seeds: [
      '--model bert --slo 50ms --gpus T4,L4 --max-trials 5 --json',
      'show bert-1 --slo 20ms --rps 100',
      'store backup a.db --db b.db',
      'spec kserve --out o',
    ].map((line) => line.replaceAll(' ', '\n')),
    read: words,
  },
  'http2-frames': {
    seeds: [Buffer.concat(http2Answer), ...http2Hostile],
    read: (input) => speaking(input, 'http2'),
  },
  'grpc-frames': {
    seeds: [twoReplies(reply(grpcMetadata), reply(grpcAnswer)), ...grpcHostile],
    read: (input) => speaking(input, 'grpc'),
  },
  'grpc-answers': {
    seeds: [
      Buffer.from('0a016d1a0130220a0a01791204465033321a0101', 'hex'),
      Buffer.from('0a0d0a01791208080112040a0208012a00', 'hex'),
    ],
    read: async (input) => {
      for (const name of protocolNames.filter((each) => protocolTable[each].transport === 'grpc')) {
        const { answerClient } = (await protocolTable[name].load()).create({ timeoutMs: 1_000 })
        await answerClient!.parse(input).catch(() => undefined)
      }
    },
  },
}
