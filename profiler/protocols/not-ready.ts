/** Recognises messages of servers that are still loading a model, whatever their status. */
import { isRecord } from '../plain-record.ts'

/** Longer texts are no status messages, and may contain these words by chance. */
const maxStatementChars = 400

/**
 * Phrases about a model or server: "not ready yet", "Loading model", "has no available versions".
 */
const loadingWords =
  /\bnot[ _-](?:yet[ _-])?(?:been[ _-])?(?:fully[ _-])?(?:ready|loaded|initiali[sz]ed)\b|\b(?:still|currently|being)[ _-](?:being )?(?:load|start|initiali[sz]|warm)(?:ed|ing)\b|\bloading(?: the)? models?\b|\bmodels? (?:\S+ )?(?:is|are) (?:loading|starting|warming up|initiali[sz]ing|unavailable)\b|\bno available versions\b|\bwarming[ _-]up\b/i
/** Single words that name the state of a server. */
const loadingStates =
  /^(?:(?:server|model|service)[: ]*(?:is )?)?(?:un_?ready|loading|starting(?: up)?|initiali[sz]ing|warming(?:[ _-]?up)?|pending|unhealthy|unavailable|down|out_of_service|start|unloading)\b[.…! ]*$/i
/** {"ready": false}, {"model_loaded": false}, {"isReady": "False"} */
const readyFlags = /^(?:is_?)?(?:model_?|server_?)?(?:is_?)?(?:ready|loaded)$/i
const stateFields = ['status', 'state', 'message', 'detail', 'error', 'reason'] as const

/**
 * Reason for not being ready in a text; undefined without one.
 * @param text body of an answer, or a message
 */
export function findNotReadyReason(text: string): string | undefined {
  const document = tryParseJson(text)
  if (isRecord(document)) return findDocumentReason(document)
  const words = typeof document === 'string' ? document : text
  return isStatement(words) && reportsLoading(words) ? words : undefined
}

/** Reason in a JSON document: a version that is not available, a flag, or a message. */
function findDocumentReason(document: Record<string, unknown>): string | undefined {
  const versions = document.model_version_status
  if (Array.isArray(versions)) return findVersionsReason(versions)
  for (const [key, value] of Object.entries(document))
    if (readyFlags.test(key) && /^false$/i.test(String(value))) return `"${key}": false`
  for (const field of stateFields) {
    const value = document[field]
    const words = isRecord(value) ? value.message : value
    if (typeof words === 'string' && isStatement(words) && reportsLoading(words))
      return field === 'status' || field === 'state' ? `"${field}": "${words}"` : words
  }
  return undefined
}

/** TensorFlow Serving: one available version is enough. */
function findVersionsReason(versions: readonly unknown[]): string | undefined {
  const records = versions.filter(isRecord)
  if (records.length === 0 || records.some(({ state }) => state === 'AVAILABLE')) return undefined
  return records
    .map(({ version, state, status }) =>
      formatVersionState(version, state, isRecord(status) ? status.error_message : undefined),
    )
    .join('; ')
}

/** @param error error of the version, '' without one */
export const formatVersionState = (version: unknown, state: unknown, error: unknown): string =>
  `version ${version} is ${state}${typeof error === 'string' && error !== '' ? ` (${error})` : ''}`

const reportsLoading = (words: string): boolean =>
  loadingWords.test(words) || loadingStates.test(words.trim())

const isStatement = (text: string): boolean =>
  text.length <= maxStatementChars && !/^\s*</.test(text)

function tryParseJson(text: string): unknown {
  if (!/^\s*["{]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined // Plain words.
  }
}
