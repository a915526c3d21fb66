/**
 * Names of the samplers; the first is the default. This module imports nothing, because the command
 * line's help needs the names at once.
 */
export const samplerNames = ['gp', 'random', 'grid', 'sobol', 'halton'] as const
export type SamplerName = (typeof samplerNames)[number]
