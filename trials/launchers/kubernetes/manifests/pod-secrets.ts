/**
 * Moves the secrets of a trial's pod into a Secret with the same owner, so that permission to read
 * pods does not reveal them.
 */
import { redactSecrets } from '../../../secrets.ts'
import type { Json } from './manifests.ts'

interface Env {
  readonly name: string
  readonly value?: string
}
interface Container {
  readonly env?: readonly Env[]
  readonly command?: readonly string[]
  readonly args?: readonly string[]
}

/** @param metadata metadata of the Secret */
export function extractSecrets(
  pod: Json,
  metadata: Json & { readonly name: string },
): { readonly pod: Json; readonly secret?: Json } {
  const data: Record<string, string> = {}
  const addSecret = (value: string): string => {
    const existingKey = Object.entries(data).find(([, other]) => other === value)?.[0]
    const key = existingKey ?? `secret-${Object.keys(data).length + 1}`
    data[key] = value
    return key
  }
  const fromSecret = (name: string, value: string) => ({
    name,
    valueFrom: { secretKeyRef: { name: metadata.name, key: addSecret(value) } },
  })
  const spec = pod.spec as Json
  const changed = Object.fromEntries(
    (['initContainers', 'containers'] as const).flatMap((list) => {
      const containers = spec[list] as readonly Container[] | undefined
      return containers === undefined
        ? []
        : [[list, containers.map((container) => replaceSecrets(container, fromSecret))]]
    }),
  )
  if (Object.keys(data).length === 0) return { pod }
  return {
    pod: { ...pod, spec: { ...spec, ...changed } },
    secret: { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', stringData: data },
  }
}

const containsSecret = (text: string | undefined): text is string =>
  text !== undefined && redactSecrets(text) !== text

/**
 * Replaces secret variables by references, and secret words of commands by variables that the
 * kubelet expands.
 */
function replaceSecrets(
  container: Container,
  fromSecret: (name: string, value: string) => object,
): Container {
  const added: object[] = []
  const word = (text: string): string => {
    // Keep words that refer to variables: values from a Secret are not expanded again.
    if (!containsSecret(text) || text.includes('$(')) return text
    const name = `TUNE_SECRET_WORD_${added.length + 1}`
    added.push(fromSecret(name, text))
    return `$(${name})`
  }
  const { env = [], command, args } = container
  const words = {
    ...(command && { command: command.map(word) }),
    ...(args && { args: args.map(word) }),
  }
  const variables = env.map((one) =>
    containsSecret(one.value) && !one.value.includes('$(') ? fromSecret(one.name, one.value) : one,
  )
  return {
    ...container,
    ...words,
    ...(variables.length + added.length > 0 && { env: [...variables, ...added] as Env[] }),
  }
}
