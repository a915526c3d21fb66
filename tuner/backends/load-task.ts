/**
 * The load of one trial as a task for `tune load` in a pod, which measures like the tuner itself.
 */
import {
  HttpLoadGenerator,
  type LoadPoint,
  type Measurement,
  type PayloadSource,
  type Phase,
  type ProtocolName,
  type ProtocolOptions,
  protocolFor,
  type Slo,
  type Target,
} from '../../profiler/index.ts'
import { AnswerCheck, type AnswerSpec } from '../../profiler/protocols/answer-check.ts'
import { prepareOnceReady } from '../../profiler/protocols/until-serving.ts'
import { decode, encode } from '../../trials/store/infinity-json.ts'
import { type Finality, LaunchError } from '../../trials/types.ts'
import { type LoadWork, runLoadWork } from './load-work.ts'
import { addServerMessages } from './server-messages.ts'
import { addMetrics, type MetricsRequest } from './server-metrics.ts'

interface LoadTask extends LoadWork {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly protocolOptions: ProtocolOptions
  readonly payload: PayloadSource
  readonly slo: Slo
  /** `url` is the predictor's Service, which may take seconds to reach the pod. */
  readonly throughService?: true
  /** URLs of all replicas, `url` among them, if the load is divided over several. */
  readonly replicaUrls?: readonly string[]
  /** Expected answers, and the requests that they belong to, by number. */
  readonly answers?: { readonly spec: AnswerSpec; readonly bodies: readonly number[] }
  readonly metrics: MetricsRequest
}

/**
 * Output of the process: one JSON text per line; the last is a measurement or an error. NaN and
 * Infinity are encoded.
 */
export type LoadLine =
  | { readonly step: LoadPoint; readonly phase: Phase }
  | { readonly measurement: Measurement }
  /** Answers under load are wrong. */
  | { readonly answersDiffer: string }
  | {
      readonly error: {
        readonly name: string
        readonly message: string
        readonly hint?: string
        readonly final?: Finality
      }
    }

export const encodeTask = (task: LoadTask): string => encode(task)
export const decodeLine = (text: string): LoadLine => decode(text) as LoadLine

/**
 * Maximum time until a Service reaches a ready pod; its DNS name and endpoints propagate within
 * seconds.
 */
const serviceReadyTimeoutMs = 60_000

function explainServiceError(error: unknown): unknown {
  if (!(error instanceof Error) || error.name === 'AbortError') return error
  return new LaunchError(
    `the Service does not reach the predictor, although its pod serves: ${error.message}`,
  )
}

async function addMetricsInPod(
  measured: Measurement,
  metricsRequest: MetricsRequest,
  target: Target,
  signal: AbortSignal,
): Promise<Measurement> {
  if (metricsRequest.asked.length === 0) return measured
  const generator = new HttpLoadGenerator()
  try {
    return await addMetrics(measured, metricsRequest, target, generator, signal)
  } finally {
    await generator.close()
  }
}

/**
 * Runs a task and prints its lines.
 * @returns the exit code: 0 if it measured, else 1
 */
export async function runLoadTask(
  text: string,
  print: (line: string) => void,
  signal: AbortSignal,
): Promise<number> {
  const say = (line: LoadLine) => print(`${encode(line)}\n`)
  try {
    const {
      url,
      model,
      protocol,
      protocolOptions,
      payload,
      slo,
      throughService,
      replicaUrls,
      answers,
      metrics,
      ...work
    } = decode(text) as LoadTask
    const speaking = protocolFor(protocol, protocolOptions)
    const endpoint = { protocol: speaking, url, model, payload }
    const prepared = throughService
      ? await prepareOnceReady(endpoint, serviceReadyTimeoutMs, signal).catch((error: unknown) => {
          throw explainServiceError(error)
        })
      : await speaking.prepare(url, model, payload, signal)
    const { path, headers } = prepared
    const replicas = replicaUrls?.map((url) => ({ url, path, headers, weight: 1 }))
    const target = { ...prepared, ...(replicas && { replicas }) }
    const check =
      answers &&
      speaking.answerClient &&
      new AnswerCheck(answers.spec, speaking.answerClient, target)
    const sample = check && {
      bodies: answers.bodies,
      onSample: (body: number, answer: Uint8Array) => check.checkBytes(body, answer),
    }
    const place = {
      target: { ...target, sample },
      slo,
      signal,
      onStep: (step: LoadPoint, phase: Phase) => say({ step, phase }),
    }
    const measurement = await addServerMessages(await runLoadWork(work, place), target, signal)
    const answersDiffer = await check?.findFault()
    if (answersDiffer !== undefined) say({ answersDiffer })
    else say({ measurement: await addMetricsInPod(measurement, metrics, target, signal) })
    return 0
  } catch (error) {
    signal.throwIfAborted()
    const { name, message } =
      error instanceof Error ? error : { name: 'Error', message: String(error) }
    const { hint, final } = error instanceof LaunchError ? error : {}
    say({ error: { name, message, hint, final } })
    return 1
  }
}
