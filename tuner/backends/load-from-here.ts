/** Load from this process, on predictors that listen. */
import { HttpLoadGenerator, type LoadGenerator } from '../../profiler/index.ts'
import { InfeasibleError } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { doWork, workOf } from './load-work.ts'
import { unlessRefused } from './refused-requests.ts'
import { heldToBounds, withMetrics } from './server-metrics.ts'
import { addServerWords } from './server-words.ts'

export function loadFromHere(experiment: Experiment): Pick<Backend, 'measure' | 'close'> {
  const generators = new GeneratorPool()
  const { slo, metrics, load, seed } = experiment
  // A server that runs already is the only one there is.
  const final = experiment.predictor.kind === 'url' ? 'experiment' : 'configuration'
  return {
    measure: async (predictor, task, { number, onStep, windows }, signal) => {
      const { target, answers, logPath } = predictor
      const counted = await generators.use((generator) =>
        unlessRefused(predictor, final, onStep, signal, (onStep, signal) =>
          doWork(workOf(experiment, task, number), {
            ...{ target, slo, signal, onStep, generator, windows },
          }),
        ),
      )
      const measurement = await addServerWords(counted, target, signal)
      const fault = await answers?.fault()
      if (fault !== undefined)
        throw new InfeasibleError('answers-differ', `under load: ${fault}`, logPath)
      const asked = { asked: metrics, arrivals: load.arrivals, seed: seed + number }
      const read = await generators.use((generator) =>
        withMetrics(measurement, asked, target, generator, signal),
      )
      return heldToBounds(read, task.kind, logPath)
    },
    close: () => generators.close(),
  }
}

/**
 * Generators kept warm between trials, one for each trial that runs at once: given out one at a
 * time, a returned one is used again.
 */
class GeneratorPool {
  private readonly idle: LoadGenerator[] = []
  private readonly all: LoadGenerator[] = []

  constructor(private readonly create: () => LoadGenerator = () => new HttpLoadGenerator()) {}

  async use<T>(work: (generator: LoadGenerator) => Promise<T>): Promise<T> {
    const generator = this.idle.pop() ?? this.make()
    try {
      return await work(generator)
    } finally {
      this.idle.push(generator)
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((generator) => generator.close()))
  }

  private make(): LoadGenerator {
    const generator = this.create()
    this.all.push(generator)
    return generator
  }
}
