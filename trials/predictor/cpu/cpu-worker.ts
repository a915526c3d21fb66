/**
 * A CPU worker: decodes and prepares requests, encodes large replies. One of the predictor's
 * `cpuCores`.
 */
import { parentPort } from 'node:worker_threads'
import { listLargeBuffers } from '../engine.ts'
import { decodeRequest, encodeReply, loadCodec } from '../protocol/codec.ts'
import { type Codecs, prepareInputs } from '../protocol/prepare.ts'
import { RequestError, type ServedModelInfo } from '../protocol/tensors.ts'
import type { CpuJob, CpuResult, DecodeJob, FromCpuWorker, ToCpuWorker } from './cpu-messages.ts'

const port = parentPort
if (!port) throw new Error('cpu-worker runs as a worker thread')

interface ServedVersion {
  readonly model: ServedModelInfo
  readonly codecs: Codecs
}
const served = new Map<string, ServedVersion>()
let last: Promise<void> = Promise.resolve()

port.on('message', (message: ToCpuWorker) => {
  last = last.then(() => handle(message))
})

async function handle(message: ToCpuWorker): Promise<void> {
  if (message.type === 'models') {
    for (const model of message.models)
      served.set(model.version, { model, codecs: await createCodecs(model) })
    port!.postMessage('ready' satisfies FromCpuWorker)
    return
  }
  const results: CpuResult[] = []
  for (const job of message.jobs) results.push(await run(job))
  port!.postMessage(
    results satisfies FromCpuWorker,
    results.flatMap((result) =>
      result.ok && 'tensors' in result.value ? listLargeBuffers(result.value.tensors) : [],
    ),
  )
}

async function createCodecs({ task, vocabularyPath }: ServedModelInfo): Promise<Codecs> {
  switch (task) {
    case 'text':
      return {
        tokenizer: (await import('../preprocess/text-input.ts')).createTokenizer(vocabularyPath),
      }
    case 'image':
      return { decodeImage: (await import('../preprocess/image-input.ts')).decodeImage }
    case 'tensor':
      return {}
  }
}

async function run(job: CpuJob): Promise<CpuResult> {
  const startedAt = performance.now()
  try {
    const version = served.get(job.version)
    if (!version) throw new Error(`no version ${job.version}`)
    await loadCodec(job.kind === 'encode' ? job.format.protocol : job.protocol)
    const value =
      job.kind === 'encode'
        ? encodeReply(job.format, job.outputs, version.model)
        : await decode(job, version)
    return { ok: true, value, ms: performance.now() - startedAt }
  } catch (error) {
    return {
      ok: false,
      status: error instanceof RequestError ? error.status : 500,
      message: error instanceof Error ? error.message : String(error),
    }
  }
}

async function decode(job: DecodeJob, { model, codecs }: ServedVersion) {
  const { inputs, format } = decodeRequest(job.protocol, job.body, model, job.headerLength)
  return { ...(await prepareInputs(inputs, model, codecs)), format }
}
