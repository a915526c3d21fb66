/** How a trial's load is applied: generators kept warm between trials, one for each trial that runs at once. */
import { type Effort, efforts, HttpLoadGenerator, type LoadGenerator, type Target, VirtualLoadGenerator } from '../../profiler/index.ts'

/** Generators given out one at a time; a returned one is used again. */
export class GeneratorPool {
  private readonly idle: LoadGenerator[] = []
  private readonly all: LoadGenerator[] = []

  constructor(private readonly create: () => LoadGenerator = () => new HttpLoadGenerator()) {}

  /** A target in virtual time gets a generator of its own. */
  async use<T>(target: Target, work: (generator: LoadGenerator) => Promise<T>): Promise<T> {
    if (target.kind === 'virtual') return work(new VirtualLoadGenerator())
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

/** The finest measurement that a trial's time under load allows. */
export function effortFor(trialSeconds: number): Effort {
  const { quick, standard, thorough } = efforts
  const finest = [thorough, standard].find((effort) => trialSeconds >= effort.budgetS) ?? quick
  return { ...finest, budgetS: trialSeconds }
}
