/**
 * The load of one trial as a task for a process elsewhere: `tune load` in a pod measures what the
 * tuner would have measured itself.
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
import { doWork, type LoadWork } from './load-work.ts'
import { type MetricsAsked, withMetrics } from './server-metrics.ts'
import { addServerWords } from './server-words.ts'

interface LoadTask extends LoadWork {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly protocolOptions: ProtocolOptions
  readonly payload: PayloadSource
  readonly slo: Slo
  /** `url` is the predictor's Service, which may lead to it only seconds later. */
  readonly throughService?: true
  /** What answers are held against, of these requests by number. */
  readonly answers?: { readonly spec: AnswerSpec; readonly bodies: readonly number[] }
  readonly metrics: MetricsAsked
}

/**
 * What the process prints, one JSON text a line; the last is a measurement or an error. Numbers
 * that JSON lacks survive.
 */
export type LoadLine =
  | { readonly step: LoadPoint; readonly phase: Phase }
  | { readonly measurement: Measurement }
  /** Answers under load are not those that they should be. */
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

/** How long a Service may take to lead to a pod that serves: its name and endpoints spread within seconds. */
const serviceReadyMs = 60_000

function serviceUnreached(error: unknown): unknown {
  if (!(error instanceof Error) || error.name === 'AbortError') return error
  return new LaunchError(
    `the Service does not reach the predictor, although its pod serves: ${error.message}`,
  )
}

async function readMetrics(
  measured: Measurement,
  asked: MetricsAsked,
  target: Target,
  signal: AbortSignal,
): Promise<Measurement> {
  if (asked.asked.length === 0) return measured
  const generator = new HttpLoadGenerator()
  try {
    return await withMetrics(measured, asked, target, generator, signal)
  } finally {
    await generator.close()
  }
}

/** Does a task, prints its lines. Returns the exit code: 0 measured, 1 not. */
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
      answers,
      metrics,
      ...work
    } = decode(text) as LoadTask
    const speaking = protocolFor(protocol, protocolOptions)
    const endpoint = { protocol: speaking, url, model, payload }
    const target = throughService
      ? await prepareOnceReady(endpoint, serviceReadyMs, signal).catch((error: unknown) => {
          throw serviceUnreached(error)
        })
      : await speaking.prepare(url, model, payload, signal)
    const check =
      answers && speaking.answers && new AnswerCheck(answers.spec, speaking.answers, target)
    const sample = check && {
      bodies: answers.bodies,
      take: (body: number, answer: Uint8Array) => check.checkBytes(body, answer),
    }
    const place = {
      target: { ...target, sample },
      slo,
      signal,
      onStep: (step: LoadPoint, phase: Phase) => say({ step, phase }),
    }
    const measurement = await addServerWords(await doWork(work, place), target, signal)
    const answersDiffer = await check?.fault()
    if (answersDiffer !== undefined) say({ answersDiffer })
    else say({ measurement: await readMetrics(measurement, metrics, target, signal) })
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
