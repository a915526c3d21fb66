/**
 * ParvaGPU's servers as a search sees them that knows five of their cells: the prior of the
 * anchored device model.
 */
import type { Configuration, Problem } from '../../search/types.ts'
import { predictDeviceLatency } from '../../trials/devices/device-model.ts'
import { predictServerMs, sampleServerFit } from '../../trials/devices/server-fit.ts'
import {
  parvaAnchored,
  parvaCall,
  parvaProfile,
} from '../../trials/devices/testing/anchored-tables.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { excludeOutOfMemory } from '../loop/out-of-memory.ts'

/**
 * A slice's speed against the slice that was measured, as a standard deviation of its logarithm.
 */
const sliceSd = 0.1
const slices = [1, 2, 3, 4, 7]
const step = 0.05

/** The names by which a run reads memory, for a configuration of the tables. */
const servedAs = ({ gpuSlices, batchSize, processes }: Configuration): Configuration => ({
  gpu: 'A100-80GB',
  migProfile: parvaProfile(gpuSlices!),
  batchSize: batchSize!,
  instances: processes!,
})

/** What launches of the tables that ran out of memory teach, by the same rule as in a run. */
export function withTableLacks(problem: Problem, trials: readonly FinishedTrial[]): Problem {
  const named = (name: string, values: readonly number[]) =>
    ({ kind: 'ordinal', category: 'server', scale: 'log', name, values }) as const
  const space = { parameters: [named('batchSize', []), named('instances', [])], constraints: [] }
  const learned = excludeOutOfMemory(
    { ...problem, space, cannotServe: undefined },
    trials.map((trial) => ({ ...trial, configuration: servedAs(trial.configuration) })),
  )
  const { servesProbability } = learned
  const serves = servesProbability && {
    servesProbability: (c: Configuration) => servesProbability(servedAs(c)),
  }
  return {
    ...problem,
    ...serves,
    cannotServe: (c) =>
      problem.cannotServe?.(c) === true || learned.cannotServe?.(servedAs(c)) === true,
  }
}

/** @param name of the task: parvagpu/MODEL@LIMIT */
export function anchoredServer(name: string, { constraintLimit: limitMs = Infinity }: Problem) {
  const model = name.split(/[/@]/)[1]!
  const anchored = parvaAnchored(model)
  const times = new Map<string, number>()
  const deviceMs = (slice: number, batch: number) => {
    const known =
      times.get(`${slice} ${batch}`) ?? predictDeviceLatency(parvaCall(model, slice, batch)).ms
    times.set(`${slice} ${batch}`, known)
    return known
  }
  /** @param z standard normals of the fit's five numbers, then ln(factor) of each slice */
  const logRateAt = (z: readonly number[]) => {
    const at = sampleServerFit(anchored, z)
    return (configuration: Configuration): number => {
      const [slice, largest, processes] = ['gpuSlices', 'batchSize', 'processes'].map((key) =>
        Number(configuration[key]),
      ) as [number, number, number]
      const factor = Math.exp(z[at.length + slices.indexOf(slice)]!)
      let best = -Infinity
      // As the recorded server is read: the best of the batches up to its largest that keep the
      // limit, and steeply less beyond it.
      for (let batch = 1; batch <= largest; batch *= 2) {
        const latencyMs = predictServerMs(at, batch, factor * deviceMs(slice, batch), processes)
        const over = Math.max(0, Math.log(latencyMs / limitMs))
        best = Math.max(best, Math.log((1000 * processes * batch) / latencyMs) - steepness * over)
      }
      return best
    }
  }
  const prior: Pick<Problem, 'priorLogRate' | 'priorLogConstraint' | 'priorFactors'> = {
    priorLogRate: logRateAt(Array(anchored.parameters.length + slices.length).fill(0)),
    priorLogConstraint: (c) =>
      Math.log(
        predictServerMs(
          anchored.parameters,
          1,
          deviceMs(Number(c.gpuSlices), 1),
          Number(c.processes),
        ),
      ),
    priorFactors: {
      sd: [
        ...anchored.parameters.map(() => 1),
        ...slices.map((slice) => (slice === 7 ? 0.01 : sliceSd)),
      ],
      applyFactors: (z) => {
        const logRate = logRateAt(z)
        const moved = z.map((_, j) => logRateAt(z.map((v, k) => (k === j ? v + step : v))))
        return {
          predictLogRate: logRate,
          computeSensitivities: (c) => moved.map((rate) => (rate(c) - logRate(c)) / step),
        }
      },
    },
  }
  return { prior, measuredOn: { gpuSlices: 7, batchSize: 64, processes: 2 } }
}

const steepness = 5
