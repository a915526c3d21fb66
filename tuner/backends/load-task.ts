/** The load of one trial as a task for a process elsewhere: `tune load` in a pod measures what the tuner would have measured itself. */
import {
  type LoadPoint,
  type Measurement,
  type PayloadSource,
  type Phase,
  type ProtocolName,
  type ProtocolOptions,
  protocolFor,
  type Slo,
} from '../../profiler/index.ts'
import { AnswerCheck, type AnswerSpec } from '../../profiler/protocols/answer-check.ts'
import { decode, encode } from '../../trials/store/infinity-json.ts'
import { doWork, type LoadWork } from './load-work.ts'

interface LoadTask extends LoadWork {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly protocolOptions: ProtocolOptions
  readonly payload: PayloadSource
  readonly slo: Slo
  /** What answers are held against, of these requests by number. */
  readonly answers?: { readonly spec: AnswerSpec; readonly bodies: readonly number[] }
}

/** What the process prints, one JSON text a line; the last is a measurement or an error. Numbers that JSON lacks survive. */
export type LoadLine =
  | { readonly step: LoadPoint; readonly phase: Phase }
  | { readonly measurement: Measurement }
  /** Answers under load are not those that they should be. */
  | { readonly answersDiffer: string }
  | { readonly error: { readonly name: string; readonly message: string } }

export const encodeTask = (task: LoadTask): string => encode(task)
export const decodeLine = (text: string): LoadLine => decode(text) as LoadLine

/** Does a task, prints its lines. Returns the exit code: 0 measured, 1 not. */
export async function runLoadTask(text: string, print: (line: string) => void, signal: AbortSignal): Promise<number> {
  const say = (line: LoadLine) => print(`${encode(line)}\n`)
  try {
    const { url, model, protocol, protocolOptions, payload, slo, answers, ...work } = decode(text) as LoadTask
    const speaking = protocolFor(protocol, protocolOptions)
    const target = await speaking.prepare(url, model, payload, signal)
    const check = answers && speaking.answers && new AnswerCheck(answers.spec, speaking.answers, target)
    const sample = check && { bodies: answers.bodies, take: (body: number, answer: Uint8Array) => check.take(body, answer) }
    const place = { target: { ...target, sample }, slo, signal, onStep: (step: LoadPoint, phase: Phase) => say({ step, phase }) }
    const measurement = await doWork(work, place)
    const answersDiffer = await check?.fault()
    say(answersDiffer === undefined ? { measurement } : { answersDiffer })
    return 0
  } catch (error) {
    signal.throwIfAborted()
    const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) }
    say({ error: { name, message } })
    return 1
  }
}
