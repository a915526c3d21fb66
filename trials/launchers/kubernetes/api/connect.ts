/** Selects the cluster of the trials: by a kubeconfig, or by the pod that the tuner runs in. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { KubeConfig } from '@kubernetes/client-node'
import { readText } from '../../../../profiler/bounded-reader.ts'
import { Api, ApiError, type ApiTimeouts } from './api.ts'

/**
 * The cluster of KUBECONFIG, ~/.kube/config or the pod we run in. Nothing is sent yet.
 * @param namespace default: the current context's
 * @throws ApiError if no cluster is configured, naming the file and what it lacks
 */
export async function connect(namespace?: string, timeouts?: ApiTimeouts): Promise<Api> {
  const { KubeConfig } = await import('./client.ts')
  const config = new KubeConfig()
  const files = listKubeconfigFiles()
  const blank = files.find(isEmptyConfig)
  if (blank !== undefined) throw createConfigError(`the kubeconfig ${blank} is empty`)
  const origin = files.length === 0 ? 'the service account of this pod' : files.join(', ')
  try {
    config.loadFromDefault()
  } catch (error) {
    // Further lines quote the file, which contains credentials.
    const [what] = (error as Error).message.split('\n')
    throw createConfigError(`the kubeconfig ${origin} cannot be read: ${what}`)
  }
  // The client's fallback is http://localhost:8080, which is no cluster.
  if (files.length === 0 && config.getCurrentCluster()?.server === 'http://localhost:8080')
    throw createConfigError('no cluster is configured')
  const lack = describeMissingPart(config)
  if (lack !== undefined) throw createConfigError(`the kubeconfig ${origin} ${lack}`)
  const context = config.getCurrentContext()
  return new Api(
    config,
    namespace ?? config.getContextObject(context)?.namespace ?? 'default',
    timeouts,
    files.length === 0 ? origin : `${origin}, context ${context}`,
  )
}

/** Lists the kubeconfig files that the client reads. */
function listKubeconfigFiles(): string[] {
  const namedFiles = process.env.KUBECONFIG?.split(delimiter).filter((file) => file !== '') ?? []
  const usual = join(process.env.HOME ?? homedir(), '.kube', 'config')
  return namedFiles.length > 0 ? namedFiles : existsSync(usual) ? [usual] : []
}

/** Whether a file contains only comments. The client reports unreadable files. */
function isEmptyConfig(file: string): boolean {
  try {
    return (
      readText(file, 'document')
        .replace(/^\s*(#.*|---)$/gm, '')
        .trim() === ''
    )
  } catch {
    return false
  }
}

/** Describes what a kubeconfig lacks to select a cluster, as the end of a sentence. */
function describeMissingPart(config: KubeConfig): string | undefined {
  const contexts = config.getContexts().map(({ name }) => name)
  const current: string | undefined = config.getCurrentContext()
  if (!current) return contexts.length === 0 ? 'names no cluster' : 'has no current-context'
  const context = config.getContextObject(current)
  if (!context)
    return `has no context ${current}, its current-context; it has ${contexts.join(', ') || 'none'}`
  const cluster = config.getCurrentCluster()
  if (!cluster) return `has no cluster ${context.cluster}, which its context ${current} names`
  if (!URL.canParse(cluster.server ?? ''))
    return `has no valid server URL for cluster ${cluster.name}: ${cluster.server ?? 'none'}`
  return undefined
}

const createConfigError = (what: string): ApiError => new ApiError(0, 'NoConfig', what, configHint)

const configHint =
  'set KUBECONFIG to a kubeconfig with a current-context (kubectl config get-contexts), or run in a pod with a service account'
