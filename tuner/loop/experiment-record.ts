/** How a new experiment goes into the store. */
import { createHash, randomBytes } from 'node:crypto'
import type { ExperimentRecord } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import { provenanceOf } from './notices.ts'

/**
 * Short, unique, typable: 'bert-7f3a'. @param key what tells this start from others; absent: it is
 * one of its own
 */
export const experimentId = (name: string, key?: string): string => {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 24)
  return `${slug || 'experiment'}-${key === undefined ? randomBytes(2).toString('hex') : createHash('sha256').update(key).digest('hex').slice(0, 8)}`
}

/** As it is kept before its first trial, stamped now. */
export const newRecord = (
  experiment: Experiment,
  id: string,
): Omit<ExperimentRecord, 'state' | 'result'> => ({
  id,
  name: experiment.name,
  createdAt: new Date().toISOString(),
  spec: experiment.document,
  seed: experiment.seed,
  provenance: provenanceOf(experiment),
})
