import { createRequire } from 'node:module'

/** Loads ml-matrix on demand: most commands start without it. */
export const loadMatrix = () =>
  createRequire(import.meta.url)('ml-matrix') as typeof import('ml-matrix')
