/** The load of one trial as a task for a process elsewhere: `tune load` in a pod measures what the tuner would have measured itself. */
import {
  type Arrivals,
  type CapacityOptions,
  confirmCapacity,
  type LoadPoint,
  type Measurement,
  measureCapacity,
  type PayloadSource,
  type ProtocolName,
  type ProtocolOptions,
  protocolFor,
  type Slo,
} from '../../profiler/index.ts'
import { decode, encode } from '../../trials/store/infinity-json.ts'

export interface LoadTask {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName
  readonly protocolOptions: ProtocolOptions
  readonly payload: PayloadSource
  readonly slo: Slo
  readonly seed: number
  readonly measure:
    | { readonly kind: 'capacity'; readonly effort: CapacityOptions['effort']; readonly capacityToBeatRps?: number }
    | { readonly kind: 'confirm'; readonly rateRps: number; readonly seconds: number; readonly arrivals: Arrivals }
}

/** What the process prints, one JSON text a line; the last is a measurement or an error. Numbers that JSON lacks survive. */
export type LoadLine =
  | { readonly step: LoadPoint; readonly phase: string }
  | { readonly measurement: Measurement }
  | { readonly error: { readonly name: string; readonly message: string } }

export const encodeTask = (task: LoadTask): string => encode(task)
export const decodeLine = (text: string): LoadLine => decode(text) as LoadLine

/** Does a task, prints its lines. Returns the exit code: 0 measured, 1 not. */
export async function runLoadTask(text: string, print: (line: string) => void, signal: AbortSignal): Promise<number> {
  const say = (line: LoadLine) => print(`${encode(line)}\n`)
  try {
    const { url, model, protocol, protocolOptions, payload, slo, seed, measure } = decode(text) as LoadTask
    const target = await protocolFor(protocol, protocolOptions).prepare(url, model, payload, signal)
    const common = { target, slo, seed, signal, onStep: (step: LoadPoint, phase: string) => say({ step, phase }) }
    const measurement =
      measure.kind === 'capacity' ? await measureCapacity({ ...common, ...measure }) : await confirmCapacity({ ...common, ...measure })
    say({ measurement })
    return 0
  } catch (error) {
    signal.throwIfAborted()
    const { name, message } = error instanceof Error ? error : { name: 'Error', message: String(error) }
    say({ error: { name, message } })
    return 1
  }
}
