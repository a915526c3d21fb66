/**
 * Where a tuned value goes when a predictor is started. Free of imports: the command line's help
 * shows the names.
 */
const categories = {
  resource: 'held for the predictor: cores, memory, GPUs',
  server:
    'a placeholder in the command, its environment and its files; of the built-in predictor a setting',
  env: 'an environment variable',
  args: 'an argument of the command',
} as const
export type Category = keyof typeof categories
export const categoryNames = Object.keys(categories) as [Category, ...Category[]]
