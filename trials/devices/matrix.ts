import { createRequire } from 'node:module'

/** ml-matrix, loaded where something is fitted: most commands start without it. */
export const loadMatrix = () =>
  createRequire(import.meta.url)('ml-matrix') as typeof import('ml-matrix')
