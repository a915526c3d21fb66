/**
 * Assumed start-up times of replicas and nodes, for configurations whose start was not measured.
 * Users replace them by those of their cluster.
 */
import type { Resources } from '../../trials/resources.ts'

interface Startup {
  readonly startupSeconds: number
  readonly nodeSeconds: number
}

/** Assumed seconds of language models (large weights), other models on a GPU, and on cores only. */
const assumedSeconds = {
  language: { startupSeconds: 180, nodeSeconds: 300 },
  gpu: { startupSeconds: 90, nodeSeconds: 240 },
  cores: { startupSeconds: 30, nodeSeconds: 120 },
}

/** @param streams whether the model is a language model */
export const assumeStartup = ({ gpu }: Resources, streams: boolean): Startup =>
  streams ? assumedSeconds.language : gpu === undefined ? assumedSeconds.cores : assumedSeconds.gpu

/**
 * Replicas on a node: as many as share one GPU; one with whole GPUs or none, because the size of a
 * node is not known here.
 */
export const countReplicasPerNode = ({ gpu, gpus, gpuShare }: Resources): number =>
  gpu !== undefined && gpus === 1 && gpuShare < 1 ? Math.floor(1 / gpuShare + 1e-9) : 1
