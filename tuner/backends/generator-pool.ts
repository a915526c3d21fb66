import { HttpLoadGenerator, type LoadGenerator } from '../../profiler/index.ts'

/**
 * Generators kept warm between trials, one for each trial that runs at once: given out one at a
 * time, a returned one is used again.
 */
export class GeneratorPool {
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
