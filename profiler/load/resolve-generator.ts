import type { LoadGenerator } from '../model/load-generator.ts'
import type { Target } from '../model/target.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { VirtualLoadGenerator } from './virtual-generator.ts'

/**
 * The given generator, or a new one for the target. Targets in virtual time always get their own.
 */
export function resolveGenerator(target: Target, given: LoadGenerator | undefined): LoadGenerator {
  if (target.kind === 'virtual') return new VirtualLoadGenerator()
  return given ?? new HttpLoadGenerator()
}
