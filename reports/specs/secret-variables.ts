/**
 * References to secrets in a container's settings as environment variables that a Secret gives: a
 * spec never holds a value.
 */
import { findReferences, isReference, replaceReferences } from '../../trials/secrets.ts'

import { describeMissing } from './placeholders.ts'

type Fields = Readonly<Record<string, unknown>>

/** What is started, as far as secrets may stand in it. */
interface ContainerSettings {
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly files?: readonly { readonly path: string; readonly contents: string }[]
  readonly notes?: readonly string[]
  readonly secretEnv?: readonly string[]
  readonly optionalSecretEnv?: readonly string[]
}

/** HF_TOKEN for `env:HF_TOKEN`; for a place in a file its last step: AUTHORIZATION. */
const nameVariable = (name: string): string =>
  name.startsWith('env:')
    ? name.slice('env:'.length)
    : decodeURIComponent(name)
        .replace(/!\d+$/, '')
        .split(/[#/]/)
        .filter((step) => step !== '')
        .slice(-2)
        .join('_')
        .replace(/[^A-Za-z0-9]+/g, '_')
        .replace(/^_+|_+$/g, '')
        .toUpperCase()

/** A text that Kubernetes completes: `Bearer $(TOKEN)`. */
function replaceByVariables(text: string, variables: Set<string>): string {
  return replaceReferences(text, (name) => {
    const variable = nameVariable(name)
    variables.add(variable)
    return `$(${variable})`
  })
}

/** `TOKEN: ${env:TOKEN}` needs no variable but its own. */
const isSingleReference = (text: string): boolean =>
  /^\$\{[^}]*\}$/.test(text) && isReference(text.slice(2, -1))

/** The container with `secretEnv` in place of every reference. */
export function replaceSecrets<Container extends ContainerSettings>(
  container: Container,
): Container {
  const texts = [
    ...(container.command ?? []),
    ...(container.args ?? []),
    ...Object.values(container.env ?? {}),
  ]
  const inFiles = (container.files ?? []).filter(
    ({ contents }) => findReferences(contents).length > 0,
  )
  if (texts.every((text) => findReferences(text).length === 0) && inFiles.length === 0)
    return container
  const variables = new Set<string>()
  const env = Object.entries(container.env ?? {}).flatMap(([name, text]) => {
    if (!isSingleReference(text)) return [[name, replaceByVariables(text, variables)] as const]
    variables.add(name)
    return []
  })
  const replaceInWords = (list: readonly string[] | undefined) =>
    list?.map((word) => replaceByVariables(word, variables))
  return {
    ...container,
    command: replaceInWords(container.command),
    args: replaceInWords(container.args),
    env: Object.fromEntries(env),
    secretEnv: [...variables].sort(),
    notes: [
      ...(container.notes ?? []),
      ...inFiles.map(({ path }) =>
        describeMissing(`${path} lacks a secret`, 'Mount the file from a Secret of your own.'),
      ),
    ],
  }
}

/** The name of the Secret of a serving. */
const nameSecret = (name: string): string => `${name}-secrets`

/**
 * As Kubernetes takes a variable from the Secret. @param optional the container starts without it
 * too
 */
export const buildSecretVariable = (
  variable: string,
  servingName: string,
  optional = false,
): Fields => ({
  name: variable,
  valueFrom: {
    secretKeyRef: { name: nameSecret(servingName), key: variable, ...(optional && { optional }) },
  },
})

/** How the Secret is made; nothing where none is needed. */
export function describeSecret(
  { secretEnv = [], optionalSecretEnv = [] }: ContainerSettings,
  servingName: string,
): string[] {
  const allVariables = [...secretEnv, ...optionalSecretEnv]
  if (allVariables.length === 0) return []
  const command = `kubectl create secret generic ${nameSecret(servingName)} ${allVariables.map((name) => `--from-literal=${name}="$${name}"`).join(' ')}`
  if (secretEnv.length > 0)
    return [
      describeMissing(`Secret ${nameSecret(servingName)} must exist`, `Create it: ${command}`),
    ]
  return [
    `a model that is not public needs ${allVariables.join(', ')} in Secret ${nameSecret(servingName)}: ${command}`,
  ]
}

/** The user's own pod likewise. */
export function replacePodSecrets<Pod extends { readonly spec: Fields }>(
  pod: Pod,
  servingName: string,
): { readonly pod: Pod; readonly secretEnv: readonly string[] } {
  const secretVariables = new Set<string>()
  const replaceInContainer = (container: Fields): Fields => {
    const variables = new Set<string>()
    const env = ((container.env as Fields[] | undefined) ?? []).map((entry) => {
      if (typeof entry.value !== 'string' || findReferences(entry.value).length === 0) return entry
      if (!isSingleReference(entry.value))
        return { ...entry, value: replaceByVariables(entry.value, variables) }
      secretVariables.add(String(entry.name))
      return buildSecretVariable(String(entry.name), servingName)
    })
    const replaceInWords = (list: unknown) =>
      Array.isArray(list)
        ? list.map((word) =>
            typeof word === 'string' ? replaceByVariables(word, variables) : word,
          )
        : list
    const replaced = {
      ...container,
      command: replaceInWords(container.command),
      args: replaceInWords(container.args),
    }
    for (const variable of variables) secretVariables.add(variable)
    const existingNames = new Set(env.map(({ name }) => name))
    // A variable that another one is completed with stands before it.
    const added = [...variables]
      .filter((variable) => !existingNames.has(variable))
      .map((variable) => buildSecretVariable(variable, servingName))
    return added.length + env.length === 0 ? replaced : { ...replaced, env: [...added, ...env] }
  }
  const lists = ['containers', 'initContainers'].flatMap((key) => {
    const list = pod.spec[key]
    return Array.isArray(list) ? [[key, (list as Fields[]).map(replaceInContainer)] as const] : []
  })
  return {
    pod: { ...pod, spec: { ...pod.spec, ...Object.fromEntries(lists) } },
    secretEnv: [...secretVariables].sort(),
  }
}
