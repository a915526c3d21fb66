/** Load from this process, on predictors that listen. */
import type { Experiment } from '../experiment/types.ts'
import type { Backend } from './backend.ts'
import { GeneratorPool } from './generator-pool.ts'
import { doWork, workOf } from './load-work.ts'

export function loadFromHere(experiment: Experiment): Pick<Backend, 'measure' | 'close'> {
  const generators = new GeneratorPool()
  const { slo } = experiment
  return {
    measure: ({ target }, task, { number, onStep }, signal) =>
      generators.use((generator) => doWork(workOf(experiment, task, number), { target, slo, signal, onStep, generator })),
    close: () => generators.close(),
  }
}
