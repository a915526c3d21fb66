import type { LoadGenerator } from '../model/load-generator.ts'
import type { Target } from '../model/target.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { VirtualLoadGenerator } from './virtual-generator.ts'

/**
 * The given generator, or one of one's own for the target; targets in virtual time always get
 * theirs.
 */
export function resolveGenerator(target: Target, given: LoadGenerator | undefined): LoadGenerator {
  if (target.kind === 'virtual') return new VirtualLoadGenerator()
  return given ?? new HttpLoadGenerator()
}
