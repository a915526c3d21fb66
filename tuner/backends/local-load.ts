/**
 * Generates load from the tuner's own process, and adds the server's messages and metrics to the
 * measurement.
 */
import { HttpLoadGenerator, type LoadGenerator } from '../../profiler/index.ts'
import { InfeasibleError } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend } from './backend.ts'
import { createLoadWork, runLoadWork } from './load-work.ts'
import { abortWhenRefused } from './refused-requests.ts'
import { addServerMessages } from './server-messages.ts'
import { addMetrics, enforceBounds } from './server-metrics.ts'

export function createLocalLoad(experiment: Experiment): Pick<Backend, 'measure' | 'close'> {
  const generators = new GeneratorPool()
  const { slo, metrics, load, seed } = experiment
  // With a single running server, refused requests end the whole experiment.
  const refusalFinality = experiment.predictor.kind === 'url' ? 'experiment' : 'configuration'
  return {
    measure: async (predictor, task, { number, onStep, windows }, signal) => {
      const { target, answers, logPath } = predictor
      const loadMeasurement = await generators.use((generator) =>
        abortWhenRefused(predictor, refusalFinality, onStep, signal, (onStep, signal) =>
          runLoadWork(createLoadWork(experiment, task, number), {
            ...{ target, slo, signal, onStep, generator, windows },
          }),
        ),
      )
      const measurement = await addServerMessages(loadMeasurement, target, signal)
      // A server that answers differently under load is infeasible.
      const fault = await answers?.fault()
      if (fault !== undefined)
        throw new InfeasibleError('answers-differ', `under load: ${fault}`, logPath)
      const metricOptions = { asked: metrics, arrivals: load.arrivals, seed: seed + number }
      const measurementWithMetrics = await generators.use((generator) =>
        addMetrics(measurement, metricOptions, target, generator, signal),
      )
      return enforceBounds(measurementWithMetrics, task.kind, logPath)
    },
    close: () => generators.close(),
  }
}

/** Reuses warm load generators between trials, one per concurrent trial. */
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
