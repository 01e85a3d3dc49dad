// Sends only the beginning of a large GGUF file: its description stands there. Without this file head -c does the same.
for (const input of document.querySelectorAll("input[type=file][data-head-bytes]")) {
  const most = Number(input.dataset.headBytes);
  input.addEventListener("change", () => {
    const file = input.files[0];
    if (!file || file.size <= most || !file.name.endsWith(".gguf")) {
      return;
    }
    const beginning = new DataTransfer();
    beginning.items.add(new File([file.slice(0, most)], file.name));
    input.files = beginning.files;
  });
}
