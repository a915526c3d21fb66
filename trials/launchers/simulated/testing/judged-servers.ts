/**
 * Whether the profiles of servers hold where it counts: GPUs and models left out of the fit whole,
 * under bars chosen on other rows.
 */
import { engineProfiles, type LlmEngineName } from '../../../predictor/llm/engine-profile.ts'
import { type Departure, departures, fitProfile, logsOf, profileOf } from './fit-profiles.ts'
import {
  benchServers,
  type FigureName,
  type MeasuredServer,
  pilotServers,
  throughputServers,
} from './measured-servers.ts'

export const figureNames: Readonly<Record<FigureName, string>> = {
  tokensPerS: 'tokens/s',
  ttftMs: 'TTFT',
  itlMs: 'between tokens',
}

/** Those of a server; of NVIDIA's many rows every fourth. */
export function measuredServers(engine: LlmEngineName): MeasuredServer[] {
  if (engine === 'tgi') return pilotServers('llm-servers')
  const bench = benchServers().filter((row) => row.engine === engine)
  if (engine !== 'tensorrt-llm') return bench
  return [
    ...bench.filter((row) => !inBlocks(row)),
    ...throughputServers().filter((_, i) => i % 4 === 0),
  ]
}

/**
 * Weights of which every 128 by 128 have a scale of their own, as Qwen's are: TensorRT-LLM
 * multiplies them by other kernels than NVIDIA's, of one scale each.
 */
const inBlocks = ({ model, device }: MeasuredServer): boolean =>
  model.startsWith('qwen3') && device.quantization === 'fp8'
/** Those of TensorRT-LLM. */
export const blockServers = (): MeasuredServer[] =>
  benchServers().filter((row) => row.engine === 'tensorrt-llm' && inBlocks(row))

export interface LeftOut extends Departure {
  readonly by: 'gpu' | 'model'
  readonly group: string
}

const groupOf = {
  gpu: (row: MeasuredServer) => row.device.gpu.name,
  model: (row: MeasuredServer) => row.model,
}

/**
 * Every row by a profile fitted without its GPU, and by one fitted without its model. Takes
 * minutes.
 */
export function* leftOut(engine: LlmEngineName): Generator<LeftOut[]> {
  const rows = measuredServers(engine)
  const committed = engineProfiles[engine]
  const fitted = { engine, order: committed.order }
  for (const by of ['gpu', 'model'] as const)
    for (const group of new Set(rows.map(groupOf[by]))) {
      const [held, seen] = [
        rows.filter((row) => groupOf[by](row) === group),
        rows.filter((row) => groupOf[by](row) !== group),
      ]
      const profile = profileOf(fitted, fitProfile(seen, fitted, logsOf(engine, committed), 3))
      yield departures(held, profile).map((departure) => ({ ...departure, by, group }))
    }
}

/**
 * Student's t over the normal's for so many groups, with the mean's own error: see the device
 * model's errors.
 */
const studentOverNormal = [Number.NaN, Number.NaN, 1.84, 1.32, 1.2, 1.14, 1.11, 1.09, 1.08, 1.07]

const twoThirds = (values: readonly number[]): number => {
  const sizes = values.map(Math.abs).sort((a, b) => a - b)
  return sizes[Math.min(sizes.length - 1, Math.floor((2 / 3) * sizes.length))] ?? Number.NaN
}

/**
 * Standard deviation of ln(simulated / measured) that two thirds of rows need whose GPU, or model,
 * was left out: as the figure that is met worst needs it, widened for how few were seen.
 * @param groups GPUs or models of all servers: how far the next one is off is theirs in common
 */
export function barOf(rows: readonly LeftOut[], groups: number): number {
  const names = Object.keys(figureNames) as FigureName[]
  const worst = Math.max(
    ...names
      .map((name) => twoThirds(rows.filter(({ figure }) => figure === name).map(({ ln }) => ln)))
      .filter(Number.isFinite),
  )
  return worst * (studentOverNormal[groups] ?? 1.06) * Math.sqrt(1 + 1 / groups)
}

/** How many rows lie within a bar that is chosen on the server's rows of all other groups. */
export function coveredBy(
  rows: readonly LeftOut[],
  ofServer: readonly LeftOut[],
  groups: number,
): number {
  const bars = new Map<string, number>()
  return rows.filter(({ group, ln }) => {
    const bar =
      bars.get(group) ??
      barOf(
        ofServer.filter((other) => other.group !== group),
        groups,
      )
    bars.set(group, bar)
    return Math.abs(ln) <= bar
  }).length
}
