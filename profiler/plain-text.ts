/**
 * Removes escape sequences and control characters from a server's text, so that it cannot control
 * the terminal that shows it.
 */
export const stripControls = (text: string): string =>
  text.replace(escapes, '').replace(controls, '')

/** ECMA-48: control sequences, strings up to their terminator, two-character escapes. */
const escapes =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g
/** Control and bidirectional characters, except tab and line feed. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g
