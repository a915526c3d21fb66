/** Reads tuned parameters by any of their usual names, and records which ones were read. */
import type { Configuration } from '../../search/types.ts'
import { normaliseName } from '../near-names.ts'
import { resourceParameters } from '../resources.ts'

/** Resources have separate fields in every format. */
const resources = new Set(resourceParameters.map(normaliseName))

export class Knobs {
  readonly #byName: Map<string, [string, number | string]>
  readonly #used = new Set<string>()

  constructor(configuration: Configuration) {
    this.#byName = new Map(
      Object.entries(configuration).map(([name, value]) => [normaliseName(name), [name, value]]),
    )
  }

  /**
   * The first of these parameters that was tuned, whatever its spelling: batchSize, batch_size,
   * batch-size.
   */
  value(...names: readonly string[]): number | string | undefined {
    for (const name of names) {
      const found = this.#byName.get(normaliseName(name))
      if (!found) continue
      this.#used.add(found[0])
      return found[1]
    }
    return undefined
  }

  /** Gets a number as `value` does; undefined for other text. */
  number(...names: readonly string[]): number | undefined {
    const value = Number(this.value(...names))
    return Number.isFinite(value) ? value : undefined
  }

  /** Names, as tuned, of the parameters that were read. */
  get used(): ReadonlySet<string> {
    return this.#used
  }

  /** 'NAME = VALUE' of every parameter that was not read, without resources. */
  unused(): string[] {
    return [...this.#byName]
      .filter(([name, [given]]) => !resources.has(name) && !this.#used.has(given))
      .map(([, [given, value]]) => `${given} = ${value}`)
  }
}

/** A note for the header of a spec about parameters that it has no field for. */
export const describeUnused = (knobs: Knobs): string[] => {
  const left = knobs.unused()
  return left.length === 0 ? [] : [`tuned, but this format has no field for it: ${left.join(', ')}`]
}
