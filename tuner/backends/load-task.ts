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
import { untilServing } from '../../trials/launchers/readiness.ts'
import { decode, encode } from '../../trials/store/infinity-json.ts'
import { type Finality, LaunchError } from '../../trials/types.ts'
import { doWork, type LoadWork } from './load-work.ts'
import { detourSentence, measureDetour } from './measure-detour.ts'
import { type MetricsAsked, withMetrics } from './server-metrics.ts'

interface LoadTask extends LoadWork {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly protocolOptions: ProtocolOptions
  readonly payload: PayloadSource
  readonly slo: Slo
  /**
   * `url` is a way to the predictor, in words; its own address is what the way is compared with.
   */
  readonly way?: {
    readonly name: string
    readonly headers: Readonly<Record<string, string>>
    readonly directUrl: string
  }
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

/**
 * How long a way may take to lead to a pod that serves: names, routes and endpoints are told of
 * within seconds.
 */
const wayMs = 60_000

function wayClosed(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error.name === 'AbortError') return error
  return new LaunchError(
    `the predictor is not reached through ${name}, though its pod serves: ${error.message}`,
  )
}

async function withDetour(
  measured: Measurement,
  way: NonNullable<LoadTask['way']>,
  target: Target,
  asked: Promise<Target>,
  signal: AbortSignal,
): Promise<Measurement> {
  const direct = await asked.catch(() => {
    signal.throwIfAborted()
    return undefined
  })
  const detour = await measureDetour({ by: way.name, way: target, direct }, signal)
  return { ...measured, detour, caveats: [...measured.caveats, detourSentence(detour)] }
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
    const { url, model, protocol, protocolOptions, payload, slo, way, answers, metrics, ...work } =
      decode(text) as LoadTask
    const speaking = protocolFor(protocol, {
      ...protocolOptions,
      headers: { ...protocolOptions.headers, ...way?.headers },
    })
    const target =
      way === undefined
        ? await speaking.prepare(url, model, payload, signal)
        : await untilServing({ protocol: speaking, url, model, payload }, wayMs, signal).catch(
            (error: unknown) => {
              throw wayClosed(error, way.name)
            },
          )
    const check =
      answers && speaking.answers && new AnswerCheck(answers.spec, speaking.answers, target)
    const sample = check && {
      bodies: answers.bodies,
      take: (body: number, answer: Uint8Array) => check.take(body, answer),
    }
    const place = {
      target: { ...target, sample },
      slo,
      signal,
      onStep: (step: LoadPoint, phase: Phase) => say({ step, phase }),
    }
    const measured = await doWork(work, place)
    // A confirmation is of what a trial has told of already.
    const direct =
      way && work.measure.kind === 'capacity' ? protocolFor(protocol, protocolOptions) : undefined
    const measurement = direct
      ? await withDetour(
          measured,
          way!,
          target,
          direct.prepare(way!.directUrl, model, payload, signal),
          signal,
        )
      : measured
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
