/**
 * How long a replica takes to come where nothing measured it: assumptions by kind, to be replaced
 * by what a cluster is known to take.
 */
import type { Resources } from '../../trials/resources.ts'

interface Startup {
  readonly startupSeconds: number
  readonly nodeSeconds: number
}

/**
 * On a node that is there, and until a node is there with its images: with a language model's
 * weights, on a GPU, on cores alone.
 */
const assumed = {
  language: { startupSeconds: 180, nodeSeconds: 300 },
  gpu: { startupSeconds: 90, nodeSeconds: 240 },
  cores: { startupSeconds: 30, nodeSeconds: 120 },
}

/** @param streams whether it is a language model. */
export const assumedStartup = ({ gpu }: Resources, streams: boolean): Startup =>
  streams ? assumed.language : gpu === undefined ? assumed.cores : assumed.gpu

/** Shares of one GPU live on one node; what else a node holds is not known here: one. */
export const perNodeOf = ({ gpu, gpus, gpuShare }: Resources): number =>
  gpu !== undefined && gpus === 1 && gpuShare < 1 ? Math.floor(1 / gpuShare + 1e-9) : 1
