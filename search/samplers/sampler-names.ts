/**
 * The samplers that can be chosen; the first is the default. Free of imports: the command line's
 * help shows them and must start fast.
 */
export const samplerNames = ['gp', 'random', 'grid', 'sobol', 'halton'] as const
export type SamplerName = (typeof samplerNames)[number]
