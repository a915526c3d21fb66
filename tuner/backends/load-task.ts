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
import { decode, encode } from '../../trials/store/infinity-json.ts'
import { doWork, type LoadWork } from './load-work.ts'

interface LoadTask extends LoadWork {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly protocolOptions: ProtocolOptions
  readonly payload: PayloadSource
  readonly slo: Slo
}

/** What the process prints, one JSON text a line; the last is a measurement or an error. Numbers that JSON lacks survive. */
export type LoadLine =
  | { readonly step: LoadPoint; readonly phase: Phase }
  | { readonly measurement: Measurement }
  | { readonly error: { readonly name: string; readonly message: string } }

export const encodeTask = (task: LoadTask): string => encode(task)
export const decodeLine = (text: string): LoadLine => decode(text) as LoadLine

/** Does a task, prints its lines. Returns the exit code: 0 measured, 1 not. */
export async function runLoadTask(text: string, print: (line: string) => void, signal: AbortSignal): Promise<number> {
  const say = (line: LoadLine) => print(`${encode(line)}\n`)
  try {
    const { url, model, protocol, protocolOptions, payload, slo, ...work } = decode(text) as LoadTask
    const target = await protocolFor(protocol, protocolOptions).prepare(url, model, payload, signal)
    say({ measurement: await doWork(work, { target, slo, signal, onStep: (step, phase) => say({ step, phase }) }) })
    return 0
  } catch (error) {
    signal.throwIfAborted()
    const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) }
    say({ error: { name, message } })
    return 1
  }
}
