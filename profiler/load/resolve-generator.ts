import type { LoadGenerator } from '../model/load-generator.ts'
import type { Target } from '../model/target.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { VirtualLoadGenerator } from './virtual-generator.ts'

/**
 * Returns the generator, or a new one for the target if none is passed. Targets in virtual time
 * always get their own.
 */
export function resolveGenerator(
  target: Target,
  generator: LoadGenerator | undefined,
): LoadGenerator {
  if (target.kind === 'virtual') return new VirtualLoadGenerator()
  return generator ?? new HttpLoadGenerator()
}
