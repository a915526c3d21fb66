/** Load from this process, on predictors that listen. */
import { InfeasibleError } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import type { Backend } from './backend.ts'
import { GeneratorPool } from './generator-pool.ts'
import { doWork, workOf } from './load-work.ts'
import { unlessRefused } from './refused-requests.ts'
import { metricsUnderLoad, overBound } from './server-metrics.ts'

export function loadFromHere(experiment: Experiment): Pick<Backend, 'measure' | 'close'> {
  const generators = new GeneratorPool()
  const { slo, metrics } = experiment
  // A server that runs already is the only one there is.
  const final = experiment.predictor.kind === 'url' ? 'experiment' : 'configuration'
  return {
    measure: async (predictor, task, { number, onStep }, signal) => {
      const { target, answers, logPath } = predictor
      const measurement = await generators.use((generator) =>
        unlessRefused(predictor, final, onStep, signal, (onStep, signal) =>
          doWork(workOf(experiment, task, number), { target, slo, signal, onStep, generator }),
        ),
      )
      const fault = await answers?.fault()
      if (fault !== undefined) throw new InfeasibleError('answers-differ', `under load: ${fault}`, logPath)
      if (metrics.length === 0 || target.kind !== 'http' || !(measurement.capacityRps > 0)) return measurement
      const { capacityRps: rateRps } = measurement
      const load = { kind: 'open', rateRps, arrivals: experiment.load.arrivals, durationS: 1, seed: experiment.seed + number } as const
      const read = await generators.use((generator) => metricsUnderLoad(metrics, target, load, generator, signal))
      const over = overBound(read, rateRps)
      if (over !== undefined && task.kind === 'trial') throw new InfeasibleError('over-bound', over, logPath)
      return { ...measurement, metrics: read, ...(over !== undefined && { caveats: [...measurement.caveats, over] }) }
    },
    close: () => generators.close(),
  }
}
