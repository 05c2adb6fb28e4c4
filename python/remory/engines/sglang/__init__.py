"""SGLang as the engine: a plug-in inside its workers (`plugin`), and our side of it (`engine`, `launch`)."""
