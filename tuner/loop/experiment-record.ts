/** A new experiment as the store records it. */
import { createHash, randomBytes } from 'node:crypto'
import type { ExperimentRecord } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import { resolveProvenance } from './notices.ts'

/**
 * Creates a short, unique identifier that is easy to type: 'bert-7f3a'.
 * @param key idempotency key: the same name and key give the same identifier
 */
export function createExperimentId(name: string, key?: string): string {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  const suffix =
    key === undefined
      ? randomBytes(2).toString('hex')
      : createHash('sha256').update(key).digest('hex').slice(0, 8)
  return `${slug || 'experiment'}-${suffix}`
}

/** Creates the record of an experiment without trials, dated now. */
export const createRecord = (
  experiment: Experiment,
  id: string,
): Omit<ExperimentRecord, 'state' | 'result'> => ({
  id,
  name: experiment.name,
  createdAt: new Date().toISOString(),
  spec: experiment.document,
  seed: experiment.seed,
  provenance: resolveProvenance(experiment),
})
