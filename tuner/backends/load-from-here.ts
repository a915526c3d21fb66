/** Load from this process, on predictors that listen. */
import { InfeasibleError } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import type { Backend } from './backend.ts'
import { GeneratorPool } from './generator-pool.ts'
import { doWork, workOf } from './load-work.ts'

export function loadFromHere(experiment: Experiment): Pick<Backend, 'measure' | 'close'> {
  const generators = new GeneratorPool()
  const { slo } = experiment
  return {
    measure: async ({ target, answers, logPath }, task, { number, onStep }, signal) => {
      const measurement = await generators.use((generator) =>
        doWork(workOf(experiment, task, number), { target, slo, signal, onStep, generator }),
      )
      const fault = await answers?.fault()
      if (fault !== undefined) throw new InfeasibleError('answers-differ', `under load: ${fault}`, logPath)
      return measurement
    },
    close: () => generators.close(),
  }
}
